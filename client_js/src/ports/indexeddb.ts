/** Documents in IndexedDB, for browsers and extensions; Web Locks keep sending to one tab. */

import { StateError } from "../core/errors.js";
import type { Platform } from "../core/metrics.js";
import type { Transaction } from "../core/state.js";
import { Exclusive, type Scope, type Storage } from "./storage.js";

const STORE = "documents";

const unavailable = (error: unknown): StateError =>
  new StateError("state_unavailable", "storage_refused", (error as Error | null)?.name ?? "unknown");

/**
 * A database of its own. A transaction of IndexedDB is one over all tabs, so that a charge to the
 * ledger and the report that it is for are kept together, or not at all.
 */
export class IndexedDbStorage implements Storage {
  private opened: Promise<IDBDatabase> | undefined;
  private readonly names = new Exclusive();

  /** platform: `app` only where no browser deletes it: a window of Electron, an extension. */
  constructor(
    private readonly name = "rappor-telemetry",
    readonly platform: Platform = "web",
  ) {}

  async transaction<T>(scope: Scope, act: (store: Transaction) => T): Promise<T> {
    const database = await (this.opened ??= this.open());
    return new Promise<T>((resolve, reject) => {
      let result: T;
      let failure: unknown;
      let running: IDBTransaction;
      try {
        running = database.transaction(STORE, "readwrite", { durability: "strict" });
      } catch (error) {
        this.opened = undefined; // the browser closed it
        return reject(unavailable(error));
      }
      const store = running.objectStore(STORE);
      running.oncomplete = () => resolve(result);
      running.onabort = () => reject(failure ?? unavailable(running.error));
      read(store, scope, (known, listed) => {
        try {
          result = act(new Documents(store, known, listed));
          running.commit(); // without a turn of the event loop for each write
        } catch (error) {
          failure = error instanceof DOMException ? unavailable(error) : error;
          try {
            running.abort();
          } catch {
            // it has ended already
          }
        }
      });
    });
  }

  async exclusive<T>(name: string, act: () => Promise<T>): Promise<T | undefined> {
    const locks = globalThis.navigator?.locks;
    if (!locks) return this.names.run(name, act); // batch ids make sending twice harmless
    return locks.request(`${this.name}/${name}`, { ifAvailable: true }, (lock) => (lock ? act() : undefined));
  }

  async scrub(): Promise<void> {}

  async close(): Promise<void> {
    (await this.opened?.catch(() => undefined))?.close();
    this.opened = undefined;
  }

  private open(): Promise<IDBDatabase> {
    return new Promise<IDBDatabase>((resolve, reject) => {
      const fail = (error: unknown): void => {
        this.opened = undefined;
        reject(unavailable(error));
      };
      try {
        const request = indexedDB.open(this.name, 1);
        request.onupgradeneeded = () => request.result.createObjectStore(STORE);
        request.onerror = () => fail(request.error);
        request.onsuccess = () => {
          const database = request.result;
          database.onversionchange = () => database.close();
          database.onclose = () => (this.opened = undefined);
          resolve(database);
        };
      } catch (error) {
        fail(error);
      }
    });
  }
}

/** Read all that a scope names, then go on in the same transaction. */
const read = (
  store: IDBObjectStore,
  { keys, prefix }: Scope,
  then: (known: Map<string, unknown>, listed: [string, unknown][]) => void,
): void => {
  const found = keys.map((key) => store.get(key));
  const range = prefix === undefined ? undefined : IDBKeyRange.bound(prefix, `${prefix}\uffff`);
  const names = range && store.getAllKeys(range);
  const values = range && store.getAll(range);
  (values ?? found.at(-1))!.onsuccess = () =>
    then(
      new Map(keys.map((key, i) => [key, found[i]!.result as unknown])),
      names ? names.result.map((key, i) => [key as string, values!.result[i] as unknown]) : [],
    );
};

class Documents implements Transaction {
  constructor(
    private readonly store: IDBObjectStore,
    private readonly known: Map<string, unknown>,
    private readonly listed: [string, unknown][],
  ) {}

  get<T>(key: string): T | undefined {
    return this.known.get(key) as T | undefined;
  }

  list<T>(): [string, T][] {
    return this.listed as [string, T][];
  }

  put(key: string, document: object): void {
    this.known.set(key, document);
    this.store.put(document, key);
  }

  remove(key: string): void {
    this.known.delete(key);
    this.store.delete(key);
  }

  through(): void {} // every transaction is strict
}
