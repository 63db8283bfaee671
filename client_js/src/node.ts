/** For Node and Electron's main process: the state in a directory of its own. */

import { Client } from "./client.js";
import type { Options } from "./options.js";
import { FileStorage } from "./ports/files.js";

export * from "./index.js";
export { FileStorage };

/** As `Client.open`, with the state in a directory. */
export const openClient = (options: Omit<Options, "storage"> & { readonly stateDir: string }): Promise<Client> =>
  Client.open({ ...options, storage: new FileStorage(options.stateDir) });
