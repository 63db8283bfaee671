/** For React Native: the state in AsyncStorage, or any store of texts by name. */

import { Client } from "./client.js";
import { StateError } from "./core/errors.js";
import { checkNames } from "./development.js";
import type { Options } from "./options.js";
import { TextStorage } from "./ports/storage.js";

export * from "./index.js";

const KEY = "rappor-telemetry";
const READABLE = 1_900_000; // characters: Android takes more under one name, and never gives it back
const MAX_QUEUED = 2000; // reports
const MAX_BYTES = 400_000; // of batches, each of which is kept as reports and as a body, in text of text

/** What is used of `@react-native-async-storage/async-storage`. */
export interface AsyncStorage {
  getItem(key: string): Promise<string | null>;
  setItem(key: string, text: string): Promise<void>;
  removeItem(key: string): Promise<void>;
}

/** Documents under one name, replaced as a whole. One client at a time, in one JavaScript engine. */
export class AsyncTextStorage extends TextStorage {
  constructor(
    private readonly texts: AsyncStorage,
    private readonly key: string = KEY,
  ) {
    super(
      () => texts.getItem(key),
      async (text) => {
        if (text.length > READABLE) throw new Error("no room");
        await texts.setItem(key, text);
      },
      "app",
    );
  }

  async reset(): Promise<void> {
    await this.texts.removeItem(this.key).catch((error: unknown) => {
      throw new StateError("state_unavailable", "storage_refused", String(error));
    });
  }
}

/**
 * As `Client.open`, with the state in AsyncStorage. randomness: needed where the app has no
 * `crypto.getRandomValues` (of `react-native-get-random-values`, or `expo-crypto`'s getRandomBytes).
 */
export const openClient = async (options: Omit<Options, "storage"> & { readonly asyncStorage: AsyncStorage }): Promise<Client> => {
  checkNames(options, ["asyncStorage"]);
  const { asyncStorage, ...more } = options;
  const delivery = { maxQueued: MAX_QUEUED, maxQueuedBytes: MAX_BYTES, ...options.delivery };
  return Client.open({ ...more, storage: new AsyncTextStorage(asyncStorage), delivery });
};
