/** For React Native: the state in AsyncStorage, or any store of texts by name. */

import { Client } from "./client.js";
import { StateError } from "./core/errors.js";
import type { Options } from "./options.js";
import { TextStorage } from "./ports/storage.js";

export * from "./index.js";

const KEY = "rappor-telemetry";
const MOST_QUEUED = 2000; // reports: Android reads no more than 2 MB of one name

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
    super(() => texts.getItem(key), (text) => texts.setItem(key, text), "app");
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
export const openClient = (options: Omit<Options, "storage"> & { readonly asyncStorage: AsyncStorage }): Promise<Client> =>
  Client.open({
    ...options,
    storage: new AsyncTextStorage(options.asyncStorage),
    delivery: { maxQueued: MOST_QUEUED, ...options.delivery },
  });
