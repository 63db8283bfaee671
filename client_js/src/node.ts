/** For Node and Electron's main process: the state in a directory of its own. */

import { Client } from "./client.js";
import { ParameterError } from "./core/errors.js";
import type { Options } from "./options.js";
import { FileStorage } from "./ports/files.js";

export * from "./index.js";
export { FileStorage };
export { inspectState } from "./ports/files.js";

/** What `openClient` takes beside the options of `Client.open`. */
export interface NodeOptions extends Omit<Options, "storage"> {
  /** A directory of the client's own, made where there is none, and kept as long as the app is installed. */
  readonly stateDir: string;
}

/** As `Client.open`, with the state in a directory. Rejects with ParameterError where none is named. */
export const openClient = async ({ stateDir, ...options }: NodeOptions): Promise<Client> => {
  if (typeof stateDir !== "string" || !stateDir) throw new ParameterError("state_dir");
  return Client.open({ ...options, storage: new FileStorage(stateDir) });
};
