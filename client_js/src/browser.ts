/** For browsers and extensions: the state in IndexedDB, and sending when the page is left. */

import { Client } from "./client.js";
import { checkNames } from "./development.js";
import type { Platform } from "./core/metrics.js";
import type { Options } from "./options.js";
import { IndexedDbStorage } from "./ports/indexeddb.js";

export { Client };
export { IndexedDbStorage };

/** What `openClient` takes in addition to the options of `Client.open`. */
export interface BrowserOptions extends Omit<Options, "storage"> {
  /** Name of the database. */
  readonly database?: string;
  /** `app` only where no browser deletes the storage: a window of Electron, an extension. */
  readonly platform?: Platform;
  /**
   * Send what waits when the page is hidden. Off: the collector would see when pages are left.
   * Without it what waits is sent after the random delay, while the page or another one is open.
   */
  readonly sendWhenHidden?: boolean;
  /** Ask the browser to keep the storage (`navigator.storage.persist`); it may ask the person. */
  readonly persist?: boolean;
}

/** As `Client.open`, with the state in IndexedDB. A browser that deletes it makes the device start over. */
export const openClient = async (options: BrowserOptions): Promise<Client> => {
  checkNames(options, ["database", "platform", "sendWhenHidden", "persist"]);
  const { database, platform, sendWhenHidden, persist, ...more } = options;
  if (options.consent && persist) void (async () => navigator.storage.persist())().catch(() => false); // may wait for the person
  return Client.open({ ...(sendWhenHidden && { whenHidden }), ...more, storage: new IndexedDbStorage(database, platform) });
};

const whenHidden = (flush: () => void): (() => void) => {
  const page = globalThis.document as Document | undefined; // a worker has none
  const changed = (): void => {
    if (page!.visibilityState === "hidden") flush();
  };
  page?.addEventListener("visibilitychange", changed);
  return () => page?.removeEventListener("visibilitychange", changed);
};
