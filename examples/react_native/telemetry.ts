/** The telemetry of a React Native app: the person's answer, remembered, and a client over AsyncStorage. */

import AsyncStorage from "@react-native-async-storage/async-storage";
import type { Client } from "rappor-telemetry-client";
import { openClient } from "rappor-telemetry-client/react-native";

const ANSWER = "telemetry-answer";

/** What the person said; undefined where nobody was asked. */
export const answer = async (): Promise<boolean | undefined> => {
  const said = await AsyncStorage.getItem(ANSWER);
  return said === null ? undefined : said === "yes";
};

/** metrics: of `rappor metrics compile`. */
export const openTelemetry = async (metrics: unknown): Promise<Client> =>
  openClient({
    metrics, asyncStorage: AsyncStorage, collector: "https://collector.example.org", consent: (await answer()) ?? false,
  }); // prettier-ignore

/** Remember the answer and act on it: "no" wipes queue and secret now. */
export const decide = async (client: Client, consent: boolean): Promise<void> => {
  await AsyncStorage.setItem(ANSWER, consent ? "yes" : "no");
  await client.setConsent(consent);
};
