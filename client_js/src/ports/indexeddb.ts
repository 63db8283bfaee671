/** Documents in IndexedDB, for browsers and extensions; Web Locks keep sending to one tab. */

import { StateError } from "../core/errors.js";
import type { Platform } from "../core/metrics.js";
import { DEVICE, type Scope, type Transaction } from "../core/state.js";
import { Exclusive, Patience, unavailable, type Storage } from "./storage.js";

const STORE = "documents";

/** What the browser says of a transaction that it did not do. */
class Lost {
  constructor(readonly why: unknown) {}
}

/**
 * A separate database. A transaction of IndexedDB is one over all tabs, so that a charge to the
 * ledger and the report that it is for are kept together, or not at all.
 */
export class IndexedDbStorage implements Storage {
  private opened: Promise<IDBDatabase> | undefined;
  private channel: BroadcastChannel | undefined;
  private withdrawn: () => void = () => undefined;
  private last: Promise<unknown> = Promise.resolve();
  private readonly names = new Exclusive();
  private readonly patience = new Patience();

  /** platform: `app` only where no browser deletes it: a window of Electron, an extension. */
  constructor(
    private readonly name = "rappor-telemetry",
    readonly platform: Platform = "web",
  ) {}

  /** One after the other, as the browser does them: none waits for an answer before it is its turn. */
  transaction<T>(scope: Scope, act: (store: Transaction) => T): Promise<T> {
    const done = this.last.then(() => this.twice(scope, act));
    this.last = done.catch(() => undefined);
    return done;
  }

  /** Once more, over a new connection, where the browser has dropped the old one, or the store in it. */
  private async twice<T>(scope: Scope, act: (store: Transaction) => T): Promise<T> {
    for (let isLast = false; ; isLast = true) {
      const database = await (this.opened ??= this.open());
      try {
        return await this.once(database, scope, act);
      } catch (error) {
        if (!(error instanceof Lost)) throw error;
        this.opened = undefined;
        database.close();
        if (isLast) throw unavailable(error.why);
        if ((error.why as Error | null)?.name === "NotFoundError") await this.remove(); // it holds no store
      }
    }
  }

  private once<T>(database: IDBDatabase, scope: Scope, act: (store: Transaction) => T): Promise<T> {
    let running: IDBTransaction;
    let failure: unknown;
    let isLate = false;
    const abort = (why?: unknown): void => {
      failure ??= why;
      try {
        running.abort();
      } catch {
        // it has ended already
      }
    };
    const done = (): Promise<T> =>
      new Promise((resolve, reject) => {
        let result: T;
        try {
          running = database.transaction(STORE, "readwrite", { durability: "strict" });
        } catch (error) {
          return reject(new Lost(error)); // the browser closed it
        }
        const store = running.objectStore(STORE);
        running.oncomplete = () => resolve(result);
        running.onabort = () => reject(failure ?? new Lost(running.error));
        read(store, scope, (known, listed) => {
          if (isLate) return this.patience.forget(), abort();
          try {
            result = act(new Documents(store, known, listed));
            running.commit?.(); // without a turn of the event loop for each write
          } catch (error) {
            abort(error instanceof DOMException ? new Lost(error) : error);
          }
        });
      });
    return this.patience.ask(done, () => (isLate = true));
  }

  async exclusive<T>(name: string, act: () => Promise<T>, waits = false): Promise<T | undefined> {
    let isAnswered = false;
    try {
      return await globalThis.navigator.locks.request(`${this.name}/${name}`, { ifAvailable: !waits }, (lock) => {
        isAnswered = true;
        return lock || waits ? act() : undefined;
      });
    } catch (error) {
      if (isAnswered) throw error;
      return this.names.run(name, act, waits); // no locks here: batch ids make sending twice harmless
    }
  }

  hear(withdrawn: () => void): void {
    this.withdrawn = withdrawn;
    this.listen();
  }

  tell(): void {
    this.patience.forget();
    this.listen()?.postMessage(0);
  }

  async scrub(): Promise<void> {}

  /** What was begun is done first: nothing opens the database again. */
  async close(): Promise<void> {
    this.channel?.close();
    this.channel = undefined;
    await this.last;
    (await this.opened?.catch(() => undefined))?.close();
    this.opened = undefined;
  }

  /** Deletes the database; one with an invalid device, which only `reset` ends, takes its place. */
  async erase(): Promise<void> {
    await this.reset();
    await this.transaction({ keys: [DEVICE] }, (store) => store.put(DEVICE, {})).catch(() => undefined);
  }

  async reset(): Promise<void> {
    await this.close();
    await this.remove();
  }

  /** Every tab closes a database that is to be deleted. */
  private async remove(): Promise<void> {
    await this.answered(() => indexedDB.deleteDatabase(this.name));
  }

  /** The other tabs and workers, from now until `close`; undefined where a page may not reach them. */
  private listen(): BroadcastChannel | undefined {
    try {
      this.channel ??= new BroadcastChannel(this.name);
      this.channel.onmessage = this.withdrawn;
    } catch {
      // they see that the secret is gone at their next step
    }
    return this.channel;
  }

  private async open(): Promise<IDBDatabase> {
    this.listen();
    try {
      const database = await this.answered(() => {
        const request = indexedDB.open(this.name, 1);
        request.onupgradeneeded = () => request.result.createObjectStore(STORE);
        return request;
      });
      database.onversionchange = () => database.close();
      database.onclose = () => (this.opened = undefined);
      return database;
    } catch (error) {
      this.opened = undefined;
      throw error;
    }
  }

  /** What a request to the browser gives. */
  private async answered<T>(ask: () => IDBRequest<T>): Promise<T> {
    let isLate = false;
    const done = (): Promise<T> =>
      new Promise((resolve, reject) => {
        const request = ask();
        request.onerror = (event) => {
          event?.preventDefault?.(); // or a page's `onerror` hears of it, too
          reject(unavailable(request.error));
        };
        request.onsuccess = () => {
          resolve(request.result);
          if (isLate) this.patience.forget(), (request.result as IDBDatabase | undefined)?.close();
        };
      });
    return this.patience.ask(
      () => done().catch((error: unknown) => Promise.reject(error instanceof StateError ? error : unavailable(error))),
      () => (isLate = true),
    );
  }
}

/** Read all that a scope names, then continue in the same transaction. */
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
