/** Documents in IndexedDB, for browsers and extensions; Web Locks keep sending to one tab. */

import { StateError } from "../core/errors.js";
import type { Platform } from "../core/metrics.js";
import { DEVICE, type Transaction } from "../core/state.js";
import { Exclusive, type Scope, type Storage } from "./storage.js";

const STORE = "documents";
const PATIENCE = 5000; // milliseconds
const LATE = { name: "TimeoutError" };

const unavailable = (error: unknown): StateError =>
  new StateError("state_unavailable", "storage_refused", (error as Error | null)?.name ?? "unknown");

/**
 * A database of its own. A transaction of IndexedDB is one over all tabs, so that a charge to the
 * ledger and the report that it is for are kept together, or not at all.
 */
export class IndexedDbStorage implements Storage {
  private opened: Promise<IDBDatabase> | undefined;
  private channel: BroadcastChannel | undefined;
  private withdrawn: () => void = () => undefined;
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
      const abort = (why: unknown): void => {
        failure = why;
        try {
          running.abort();
        } catch {
          // it has ended already
        }
      };
      const timer = setTimeout(() => abort(unavailable(LATE)), PATIENCE);
      const store = running.objectStore(STORE);
      running.oncomplete = () => (clearTimeout(timer), resolve(result));
      running.onabort = () => (clearTimeout(timer), reject(failure ?? unavailable(running.error)));
      read(store, scope, (known, listed) => {
        try {
          result = act(new Documents(store, known, listed));
          running.commit(); // without a turn of the event loop for each write
        } catch (error) {
          abort(error instanceof DOMException ? unavailable(error) : error);
        }
      });
    });
  }

  async exclusive<T>(name: string, act: () => Promise<T>, waits = false): Promise<T | undefined> {
    const locks = globalThis.navigator?.locks;
    if (!locks) return this.names.run(name, act, waits); // batch ids make sending twice harmless
    return locks.request(`${this.name}/${name}`, { ifAvailable: !waits }, (lock) => (lock ? act() : undefined));
  }

  hear(withdrawn: () => void): void {
    this.withdrawn = withdrawn;
    this.listen();
  }

  tell(): void {
    this.listen().postMessage(0);
  }

  async scrub(): Promise<void> {}

  async close(): Promise<void> {
    (await this.opened?.catch(() => undefined))?.close();
    this.channel?.close();
    this.opened = this.channel = undefined;
  }

  /** Deletes the database; one with a device that is none, which only `reset` ends, takes its place. */
  async erase(): Promise<void> {
    await this.reset();
    await this.transaction({ keys: [DEVICE] }, (store) => store.put(DEVICE, {})).catch(() => undefined);
  }

  /** Every tab closes a database that is to be deleted. */
  async reset(): Promise<void> {
    await this.close();
    await answered(() => indexedDB.deleteDatabase(this.name));
  }

  /** The other tabs and workers, from now until `close`. */
  private listen(): BroadcastChannel {
    this.channel ??= new BroadcastChannel(this.name);
    this.channel.onmessage = this.withdrawn;
    return this.channel;
  }

  private open(): Promise<IDBDatabase> {
    this.listen();
    const opened = answered(() => {
      const request = indexedDB.open(this.name, 1);
      request.onupgradeneeded = () => request.result.createObjectStore(STORE);
      return request;
    });
    return opened.then(
      (database) => {
        database.onversionchange = () => database.close();
        database.onclose = () => (this.opened = undefined);
        return database;
      },
      (error: unknown) => {
        this.opened = undefined;
        throw error;
      },
    );
  }
}

/** What a request to the browser gives, within some seconds: a browser may never answer. */
const answered = <T>(ask: () => IDBRequest<T>): Promise<T> =>
  new Promise<T>((resolve, reject) => {
    const begun = performance.now();
    setTimeout(reject, PATIENCE, LATE);
    const request = ask();
    request.onerror = () => reject(request.error);
    request.onsuccess = () => {
      if (performance.now() - begun < PATIENCE) resolve(request.result);
      else (request.result as IDBDatabase | undefined)?.close(); // nobody waits for it any more
    };
  }).catch((error: unknown) => {
    throw unavailable(error);
  });

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
