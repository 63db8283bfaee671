// The golden vectors of the project, and a store for tests of the core without a client.

import { readFileSync } from "node:fs";

export const vectors = (name) =>
  JSON.parse(readFileSync(new URL(`../../tests/vectors/v1/${name}.json`, import.meta.url), "utf8"));

/** Documents in a map: what a Storage does in one transaction, and nothing else. */
export class Documents {
  all = new Map();

  /** Run `act`; nothing of it is kept if it throws. */
  run(act, prefix = "queue/") {
    const before = new Map(this.all);
    const copy = (value) => value && JSON.parse(JSON.stringify(value));
    try {
      return act({
        get: (key) => copy(this.all.get(key)),
        list: () =>
          [...this.all].filter(([key]) => key.startsWith(prefix)).sort().map(([key, value]) => [key, copy(value)]),
        put: (key, value) => this.all.set(key, copy(value)),
        remove: (key) => this.all.delete(key),
        through: () => undefined,
      });
    } catch (error) {
      this.all = before;
      throw error;
    }
  }
}
