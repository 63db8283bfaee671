/** Where a device's documents are kept: the interface, and two simple stores behind it. */

import { StateError } from "../core/errors.js";
import type { Platform } from "../core/metrics.js";
import type { Scope, Transaction } from "../core/state.js";

/**
 * Documents by key. One transaction at a time, over all tabs and processes that share the store;
 * all that it writes is kept when its promise is fulfilled, or nothing of it.
 */
export interface Storage {
  /** Of metrics that may be recorded over it: `app` where it lasts as long as the app is installed. */
  readonly platform?: Platform;
  /**
   * Runs `act`, synchronously; an exception of it undoes all and rejects. Or StateError. It runs
   * twice where the platform lost the first run, of which nothing is kept then.
   */
  transaction<T>(scope: Scope, act: (store: Transaction) => T): Promise<T>;
  /**
   * Runs `act` unless another tab or process is in an act of this name: then undefined.
   * waits: runs it once the other's act has ended.
   */
  exclusive<T>(name: string, act: () => Promise<T>, waits?: boolean): Promise<T | undefined>;
  /**
   * Calls `withdrawn` when another client of these documents reveals that it withdrew consent; until
   * `close`, or until what it gives is called.
   */
  hear?(withdrawn: () => void): (() => void) | void;
  /** Tells all others, in all tabs and workers, but the one that hears by `own`. */
  tell?(own: () => void): void;
  /** Sees that nothing of removed documents is left in files. */
  scrub(): Promise<void>;
  close(): Promise<void>;
  /**
   * Deletes documents that cannot be read or written, and what refers to them; not that there were
   * some: a later transaction is refused, until `reset`.
   */
  erase?(): Promise<void>;
  /** Forgets all that it holds, and that there ever was something; closed before. */
  reset?(): Promise<void>;
}

/** Where there are documents there is a browser, unless a storage says otherwise. */
export const platformHere = (): Platform => (typeof document === "undefined" && !("WorkerGlobalScope" in globalThis) ? "app" : "web");

/** Documents as JSON by key: what one transaction reads and writes. */
export class Changes implements Transaction {
  /** JSON by key; undefined: removed. */
  readonly written = new Map<string, string | undefined>();
  isDurable = false;

  constructor(
    private readonly known: ReadonlyMap<string, string>,
    private readonly prefix: string | undefined,
  ) {}

  get<T>(key: string): T | undefined {
    const text = this.written.has(key) ? this.written.get(key) : this.known.get(key);
    if (text === undefined) return undefined;
    try {
      return JSON.parse(text) as T;
    } catch {
      return null as T; // damaged, as whoever asked for it will find
    }
  }

  list<T>(): [string, T][] {
    const keys = [...this.known.keys()].filter((key) => this.prefix !== undefined && key.startsWith(this.prefix));
    return keys.sort().flatMap((key) => {
      const document = this.get<T>(key);
      return document === undefined ? [] : [[key, document] as [string, T]];
    });
  }

  put(key: string, document: object): void {
    this.written.set(key, JSON.stringify(document));
  }

  remove(key: string): void {
    this.written.set(key, undefined);
  }

  through(): void {
    this.isDurable = true;
  }

  /** Apply what was written to the documents it was read from. */
  applyTo(documents: Map<string, string>): void {
    for (const [key, text] of this.written) {
      if (text === undefined) documents.delete(key);
      else documents.set(key, text);
    }
  }
}

/** What came of a promise within so many seconds; undefined where nothing did, or it rejected. */
export const within = async <T>(promise: Promise<T>, seconds: number): Promise<T | undefined> => {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const late = new Promise<undefined>((resolve) => {
    timer = setTimeout(() => resolve(undefined), seconds * 1000);
  });
  return Promise.race([promise.catch(() => undefined), late]).finally(() => clearTimeout(timer));
};

/** Seconds; a wall clock that is set neither hurries nor stops what is measured. */
export const monotonic = (): number => (globalThis.performance ?? Date).now() / 1000;

const PATIENCE = 5; // seconds
const LITTLE_PATIENCE = 0.1; // seconds, with a platform that was silent
const SILENT_FOR = 60; // seconds
const LATE = { name: "TimeoutError" };

/** A platform's store that does not answer as it should. */
export const unavailable = (error: unknown): StateError =>
  new StateError("state_unavailable", "storage_refused", String((error as Error | null)?.name ?? error));

/** Waits 5 s for an answer of the platform; one that never came is remembered for a minute, in which each is given .1 s. */
export class Patience {
  private silentUntil = 0;

  /** What came of asking. Rejects with StateError where nothing did in time; `giveUp` is called before. */
  async ask<T>(begin: () => Promise<T>, giveUp?: () => void): Promise<T> {
    const isSilent = monotonic() < this.silentUntil;
    let timer: ReturnType<typeof setTimeout> | undefined;
    const late = new Promise<never>((_, reject) => {
      timer = setTimeout(
        () => {
          if (!isSilent) this.silentUntil = monotonic() + SILENT_FOR;
          giveUp?.();
          reject(unavailable(LATE));
        },
        1000 * (isSilent ? LITTLE_PATIENCE : PATIENCE),
      );
    });
    const answer = await Promise.race([begin(), late]).finally(() => clearTimeout(timer));
    this.forget();
    return answer;
  }

  /** It has answered after all, or is to be waited for. */
  forget(): void {
    this.silentUntil = 0;
  }
}

/** One act of a name at a time, within one process. */
export class Exclusive {
  private readonly held = new Map<string, Promise<unknown>>();

  async run<T>(name: string, act: () => Promise<T>, waits = false): Promise<T | undefined> {
    for (let other; (other = this.held.get(name)); ) {
      if (!waits) return undefined;
      await other.catch(() => undefined);
    }
    const done = act().finally(() => this.held.delete(name));
    this.held.set(name, done);
    return done;
  }
}

/**
 * All documents in one text that is read and written as a whole: for React Native, where
 * `AsyncStorage.getItem` and `setItem` do that, and for any store of one process that replaces a
 * text atomically. (No secure storage of small keys: the text holds the queue, too.)
 */
export class TextStorage implements Storage {
  private documents: Map<string, string> | undefined;
  private last: Promise<unknown> = Promise.resolve();
  private isWriting = false; // since long: what it writes may come after anything that would be written now
  private readonly names = new Exclusive();
  private readonly hearers = new Set<() => void>();
  private readonly patience = new Patience();

  constructor(
    private readonly read: () => Promise<string | null>,
    private readonly write: (text: string) => Promise<void>,
    readonly platform: Platform = platformHere(),
  ) {}

  transaction<T>(scope: Scope, act: (store: Transaction) => T): Promise<T> {
    const done = this.last.then(() => this.one(scope, act));
    this.last = done.catch(() => undefined);
    return done;
  }

  exclusive<T>(name: string, act: () => Promise<T>, waits?: boolean): Promise<T | undefined> {
    return this.names.run(name, act, waits);
  }

  hear(withdrawn: () => void): () => void {
    this.hearers.add(withdrawn);
    return () => void this.hearers.delete(withdrawn);
  }

  tell(own: () => void): void {
    this.patience.forget();
    for (const withdrawn of this.hearers) if (withdrawn !== own) withdrawn();
  }

  async scrub(): Promise<void> {}

  async erase(): Promise<void> {
    await this.close();
    await this.keep("withdrawn"); // no JSON: only `reset` starts over
  }

  async close(): Promise<void> {
    await this.last;
    this.documents = undefined;
  }

  private async one<T>(scope: Scope, act: (store: Transaction) => T): Promise<T> {
    if (this.isWriting) throw unavailable(LATE);
    this.documents ??= await this.load();
    const changes = new Changes(this.documents, scope.prefix);
    const result = act(changes);
    if (!changes.written.size) return result;
    const after = new Map(this.documents);
    changes.applyTo(after);
    await this.keep(JSON.stringify([...after]));
    this.documents = after;
    return result;
  }

  private async keep(text: string): Promise<void> {
    if (this.isWriting) throw unavailable(LATE);
    const written = (async () => this.write(text))();
    try {
      await this.patience.ask(
        () => written,
        () => {
          this.isWriting = true;
          const ended = (): void => (this.patience.forget(), void (this.isWriting = false));
          written.then(ended, ended);
        },
      );
    } catch (error) {
      this.documents = undefined; // what is stored is not known: read again
      throw refused(error);
    }
  }

  private async load(): Promise<Map<string, string>> {
    let text: string | null | undefined;
    try {
      text = await this.patience.ask(async () => this.read());
    } catch (error) {
      throw refused(error);
    }
    try {
      return new Map(text == null ? [] : (JSON.parse(text) as [string, string][]));
    } catch {
      throw new StateError("state_corrupt", "state_damaged");
    }
  }
}

const refused = (error: unknown): StateError =>
  error instanceof StateError ? error : new StateError("state_unavailable", "storage_refused", String(error));

/** Documents in memory: for tests, and where nothing may be kept. */
export class MemoryStorage extends TextStorage {
  constructor() {
    let kept: string | null = null;
    super(
      async () => kept,
      async (text) => {
        kept = text;
      },
    );
  }
}
