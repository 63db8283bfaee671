/** For browsers and extensions: the state in IndexedDB, and sending when the page is left. */

import { Client } from "./client.js";
import type { Platform } from "./core/metrics.js";
import type { Options } from "./options.js";
import { IndexedDbStorage } from "./ports/indexeddb.js";

export { Client };
export { IndexedDbStorage };

/** What `openClient` takes beside the options of `Client.open`. */
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

/** As `Client.open`, with the state in IndexedDB. A browser that deletes it makes the device begin anew. */
export const openClient = async (options: BrowserOptions): Promise<Client> => {
  if (options.consent && options.persist) void navigator.storage?.persist?.().catch(() => false); // may wait for the person
  const client = await Client.open({ ...options, storage: new IndexedDbStorage(options.database, options.platform) });
  if (options.sendWhenHidden && typeof document !== "undefined") {
    document.addEventListener("visibilitychange", () => {
      if (document.visibilityState === "hidden") void client.flush(5);
    });
  }
  return client;
};
