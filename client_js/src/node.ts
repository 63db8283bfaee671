/** For Node and Electron's main process: the state in a separate directory. */

import { Client as AnyClient } from "./client.js";
import { ParameterError } from "./core/errors.js";
import { checkNames } from "./development.js";
import type { Options } from "./options.js";
import { FileStorage } from "./ports/files.js";
import { httpTransport } from "./ports/http.js";
import { batchUrl } from "./ports/transport.js";

export * from "./index.js";
export { FileStorage };
export { inspectState } from "./ports/files.js";

/** As the client of every platform, but for how a batch leaves: by `node:http`. */
export class Client extends AnyClient {
  static override async open(options: Options): Promise<Client> {
    const { collector, key, development = false, transport = httpTransport(batchUrl(collector, key, development), key) } = options;
    return super.open({ ...options, transport });
  }
}

/** What `openClient` takes in addition to the options of `Client.open`. */
export interface NodeOptions extends Omit<Options, "storage"> {
  /**
   * A directory of the client's own, made where there is none, and kept as long as the app is
   * installed. A relative one is of the process's directory now, wherever that is later.
   */
  readonly stateDir: string;
}

/** As `Client.open`, with the state in a directory. Rejects with ParameterError where none is named. */
export const openClient = async (given: NodeOptions): Promise<Client> => {
  checkNames(given, ["stateDir"]);
  const { stateDir, ...options } = given;
  if (typeof stateDir !== "string" || !stateDir) throw new ParameterError("state_dir");
  return Client.open({ ...options, storage: new FileStorage(stateDir) });
};
