/** Documents in a separate directory, for Node and Electron: a journal that is read at start. */

import {
  closeSync, existsSync, fdatasyncSync, fstatSync, fsyncSync, mkdirSync, openSync, readFileSync, renameSync,
  rmSync, statSync, truncateSync, writeFileSync, writeSync,
} from "node:fs";
import { join, resolve } from "node:path";
import { createHash } from "node:crypto";
import { StateError } from "../core/errors.js";
import { accountOfDevice, withdraw, type DeviceAccount } from "../account.js";
import { DEVICE, LINE, valueOf, type Scope, type Transaction } from "../core/state.js";
import { takeLock } from "./lock.js";
import { Changes, Exclusive, type Storage } from "./storage.js";

const UNSCRUBBED = "unscrubbed"; // a document of the storage's own: lines of the journal hold what a period that is over kept
const SPARE = 1 << 20; // bytes of the journal beyond twice what it holds, before it is rewritten

const digest = (text: string): string => createHash("sha256").update(text).digest("hex").slice(0, 16);

/**
 * One process at a time. Each transaction is one line, written in one call: what was acknowledged
 * survives the end of the process; what a guarantee hangs on survives a loss of power, too.
 */
export class FileStorage implements Storage {
  readonly platform = "app";
  private readonly documents = new Map<string, string>();
  private readonly journal: string;
  private readonly lock: string;
  private readonly marker: string;
  /** Empty; there since the first secret was made: it reveals a lost journal from one that never was. */
  private readonly witness: string;
  private readonly hearers = new Set<() => void>();
  private readonly names = new Exclusive();
  private readonly directory: string;
  private file: number | undefined;
  private inode = 0;
  private size = 0;
  private hasTold = false;
  private scrubbing: ReturnType<typeof setTimeout> | undefined;

  /** directory: a relative one is of the process's directory now, wherever that is later. */
  constructor(directory: string) {
    this.directory = directory = resolve(directory);
    this.journal = join(directory, "state.journal");
    this.lock = join(directory, "state.lock");
    this.marker = join(directory, "state.withdrawal");
    this.witness = join(directory, "state.witness");
  }

  async transaction<T>(scope: Scope, act: (store: Transaction) => T): Promise<T> {
    const isStart = this.file === undefined;
    this.open();
    if (existsSync(this.marker)) this.endConsent(isStart);
    const result = this.run(scope, act);
    if (this.documents.has(UNSCRUBBED)) this.scrubSoon();
    return result;
  }

  /** Once for all the periods that end together. A process that ends before leaves it to the next one. */
  private scrubSoon(): void {
    this.scrubbing ??= setTimeout(() => {
      this.scrubbing = undefined;
      if (this.file !== undefined) this.shorten();
    });
    this.scrubbing.unref();
  }

  private run<T>(scope: Scope, act: (store: Transaction) => T): T {
    const changes = new Changes(this.documents, scope.prefix);
    const result = act(changes);
    if (!changes.written.size) return result;
    if (this.forgets(changes)) changes.put(UNSCRUBBED, {});
    this.write(changes);
    return result;
  }

  exclusive<T>(name: string, act: () => Promise<T>, waits?: boolean): Promise<T | undefined> {
    return this.names.run(name, act, waits);
  }

  hear(withdrawn: () => void): () => void {
    this.hearers.add(withdrawn);
    return () => void this.hearers.delete(withdrawn);
  }

  /** By a file, which the process that has the directory looks for in each transaction, or the next one. */
  tell(own: () => void): void {
    this.announce(own);
    this.hasTold = true;
    try {
      if (existsSync(this.journal)) writeFileSync(this.marker, "", { mode: 0o600 });
    } catch {
      // a directory that takes nothing: what can be done is done by the withdrawal itself
    }
  }

  async scrub(): Promise<void> {
    this.open();
    this.guarded(() => this.finish());
  }

  async close(): Promise<void> {
    if (this.file === undefined) return;
    if (this.documents.has(UNSCRUBBED)) this.shorten();
    this.letGo();
  }

  /** Overwrites the journal in place, which takes no room, and deletes it; the witness stays. */
  async erase(): Promise<void> {
    this.guarded(() => {
      if (this.file === undefined) takeLock(this.lock);
      try {
        for (const path of [this.journal, `${this.journal}.next`, this.marker]) {
          if (existsSync(path)) overwrite(path);
          rmSync(path, { force: true });
        }
      } finally {
        this.letGo();
      }
    });
  }

  async reset(): Promise<void> {
    this.guarded(() => {
      mkdirSync(this.directory, { recursive: true, mode: 0o700 });
      takeLock(this.lock);
      try {
        rmSync(this.witness, { force: true });
        rmSync(this.journal, { force: true });
      } finally {
        rmSync(this.lock, { force: true });
      }
    });
  }

  /** Consent was withdrawn: wipe what another process could not, and have each client here hear of it. */
  private endConsent(isStart: boolean): void {
    const isOwn = this.hasTold || isStart; // a start knows what the person answered since
    this.run({ keys: [], prefix: "" }, withdraw);
    this.guarded(() => this.finish());
    if (!isOwn) this.announce();
  }

  private finish(): void {
    this.rewrite();
    rmSync(this.marker, { force: true });
    this.hasTold = false;
  }

  private announce(own?: () => void): void {
    for (const withdrawn of this.hearers) if (withdrawn !== own) withdrawn();
  }

  /** Whether it takes the place of what was kept of a period that is over. */
  private forgets({ written }: Changes): boolean {
    return [...written].some(([key, text]) => {
      const before = key.startsWith(LINE) ? keptFor(this.documents.get(key)) : undefined;
      return before !== undefined && before !== keptFor(text);
    });
  }

  private write(changes: Changes): void {
    const line = lineOf([...changes.written].map(([key, text]) => [key, text ?? null]));
    this.guarded(() => {
      try {
        for (let at = 0; at < line.length; ) at += writeSync(this.file!, line, at);
        if (changes.isDurable) fdatasyncSync(this.file!);
      } catch (error) {
        this.takeBack();
        throw error;
      }
    });
    this.size += line.length;
    changes.applyTo(this.documents);
    this.testify();
    if (this.size > SPARE && this.size > SPARE + 2 * this.live()) this.shorten();
  }

  /** Leave the witness once there is a device. */
  private testify(): void {
    if (!this.documents.has(DEVICE) || existsSync(this.witness)) return;
    try {
      writeFileSync(this.witness, "", { mode: 0o600 });
    } catch {
      // a directory that takes no file more: it is tried again with the next line
    }
  }

  /** Remove a line that is not wholly there, on a full disk; or else read all again next time. */
  private takeBack(): void {
    try {
      truncateSync(this.journal, this.size);
    } catch {
      this.letGo();
    }
  }

  private letGo(): void {
    if (this.isHere()) rmSync(this.lock, { force: true });
    if (this.file !== undefined) closeSync(this.file);
    this.file = undefined;
    this.documents.clear();
  }

  /** Whether the journal lies where it was opened: the lock next to it is ours. */
  private isHere(): boolean {
    return this.file === undefined || statSync(this.journal, { throwIfNoEntry: false })?.ino === this.inode;
  }

  private live(): number {
    let size = 0;
    for (const [key, text] of this.documents) size += key.length + text.length;
    return size;
  }

  private shorten(): void {
    try {
      this.rewrite();
    } catch {
      // what was to be kept is kept: it is tried again with the next line
    }
  }

  /** Replace the journal by one that holds the present documents and nothing of the past. */
  private rewrite(): void {
    const next = `${this.journal}.next`;
    const line = lineOf([...this.documents].filter(([key]) => key !== UNSCRUBBED));
    rmSync(next, { force: true });
    const file = openSync(next, "a", 0o600);
    try {
      writeFileSync(file, line);
      fsyncSync(file);
      renameSync(next, this.journal);
    } catch (error) {
      closeSync(file);
      throw error;
    }
    closeSync(this.file!);
    [this.file, this.size, this.inode] = [file, line.length, fstatSync(file).ino];
    this.documents.delete(UNSCRUBBED);
    if (process.platform === "win32") return;
    const directory = openSync(this.directory, "r");
    fsyncSync(directory);
    closeSync(directory);
  }

  private open(): void {
    if (!this.isHere()) {
      this.letGo();
      throw new StateError("state_unavailable", "state_gone");
    }
    if (this.file !== undefined) return;
    this.guarded(() => {
      mkdirSync(this.directory, { recursive: true, mode: 0o700 });
      takeLock(this.lock);
    });
    try {
      this.guarded(() => this.load());
    } catch (error) {
      this.letGo();
      throw error;
    }
  }

  /** A last line that is not whole was never acknowledged; any other means damage. */
  private load(): void {
    const size = existsSync(this.journal) ? statSync(this.journal).size : 0;
    this.size = size && readJournal(this.journal, this.documents);
    if (this.size < size) truncateSync(this.journal, this.size);
    this.file = openSync(this.journal, "a", 0o600);
    this.inode = fstatSync(this.file).ino;
    if (!this.documents.has(DEVICE) && existsSync(this.witness)) throw new StateError("state_missing", "journal_missing");
    this.testify();
  }

  private guarded(act: () => void): void {
    try {
      act();
    } catch (error) {
      if (error instanceof StateError) throw error;
      throw new StateError("state_unavailable", "storage_refused", (error as Error).message);
    }
  }
}

/** Read a journal into documents. Bytes of its whole lines. Throws StateError. */
const readJournal = (path: string, documents: Map<string, string>): number => {
  const lines = readFileSync(path, "utf8").split("\n");
  let size = 0;
  for (const line of lines.slice(0, -1)) {
    const [check, body] = [line.slice(0, 16), line.slice(17)];
    if (digest(body) !== check) throw new StateError("state_corrupt", "state_damaged");
    for (const [key, document] of JSON.parse(body) as [string, string | null][]) {
      if (document === null) documents.delete(key);
      else documents.set(key, document);
    }
    size += Buffer.byteLength(line) + 1;
  }
  return size;
};

/**
 * What a directory holds and has sent, while a process uses it. Throws StateError where there is
 * no state, or it cannot be read.
 */
export const inspectState = (directory: string): DeviceAccount => {
  const documents = new Map<string, string>();
  try {
    readJournal(join(directory, "state.journal"), documents);
  } catch (error) {
    if (error instanceof StateError) throw error;
    throw new StateError("state_unavailable", "storage_refused", (error as Error).message);
  }
  const account = accountOfDevice(new Changes(documents, ""), (device) => valueOf(device.budget ?? null));
  if (!account) throw new StateError("state_corrupt", "state_damaged");
  return account;
};

const lineOf = (changes: readonly (readonly [string, string | null])[]): Buffer => {
  const body = JSON.stringify(changes);
  return Buffer.from(`${digest(body)} ${body}\n`);
};

/** Of which period and meaning the note of a line is; undefined where there is none. text: of the line. */
const keptFor = (text: string | undefined): string | undefined => {
  if (text === undefined || text.includes('"note":null')) return undefined;
  try {
    const { of, period } = JSON.parse((JSON.parse(text) as { note: string }).note) as { of: unknown; period: unknown };
    return JSON.stringify([of, period]);
  } catch {
    return ""; // damaged: what it holds is not known
  }
};

/** Zeros over a file, no longer than it is; what cannot be overwritten is deleted all the same. */
const overwrite = (path: string): void => {
  try {
    writeFileSync(path, new Uint8Array(statSync(path).size), { flag: "r+", flush: true });
  } catch {
    // a disk that takes nothing
  }
};
