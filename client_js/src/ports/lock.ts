/** A lock file: one process at a time has a directory, and a dead one's is taken over by one. */

import { linkSync, readdirSync, readFileSync, renameSync, rmSync, statSync, writeFileSync } from "node:fs";
import { createHash, randomUUID } from "node:crypto";
import { basename, dirname, join } from "node:path";
import { StateError } from "../core/errors.js";

const EMPTY_FOR = 10_000; // milliseconds that a process may take from making a file to filling it

const codeOf = (error: unknown): string => (error as NodeJS.ErrnoException).code ?? "";

/** What Linux says of a process, from its state on; undefined where it says nothing. */
const statOf = (pid: number): string[] | undefined => {
  try {
    return readFileSync(`/proc/${pid}/stat`, "utf8").split(") ").at(-1)!.split(" ");
  } catch {
    return undefined;
  }
};

/** Who holds a lock: a process, and when it began if the system reports it, since ids are reused. */
const processOf = (pid: number): string => `${pid} ${statOf(pid)?.[19] ?? ""}`;

/** Also a process of another user; not one that has ended and that nobody waited for. */
const isAlive = (text: string): boolean => {
  const [pid, began] = [Number(text.split(" ")[0]), text.split(" ")[1]];
  if (!(pid > 0)) return false; // nothing that a process wrote
  try {
    process.kill(pid, 0);
  } catch (error) {
    if (codeOf(error) !== "EPERM") return false;
  }
  const stat = statOf(pid);
  return !stat || (stat[0] !== "Z" && stat[19] === began);
};

/** What a lock file says; undefined where there is none. */
const said = (path: string): string | undefined => {
  try {
    const text = readFileSync(path, "utf8");
    if (text) return text;
    const { mtimeMs, ino } = statSync(path); // made where there are no hard links, and not filled yet
    return Math.abs(Date.now() - mtimeMs) < EMPTY_FOR ? processOf(process.pid) : `0 ${ino} ${mtimeMs}`;
  } catch (error) {
    if (codeOf(error) === "ENOENT") return undefined;
    throw error;
  }
};

const link = (draft: string, path: string, text: string): void => {
  try {
    linkSync(draft, path);
  } catch (error) {
    if (codeOf(error) === "EEXIST") throw error;
    writeFileSync(path, text, { flag: "wx", mode: 0o600 }); // a file system without hard links
  }
};

/** Make a file that is whole from the first moment on. False where there is one. */
const make = (path: string, text: string): boolean => {
  const draft = `${path}.${randomUUID()}`;
  try {
    writeFileSync(draft, text, { mode: 0o600 });
    link(draft, path, text);
  } catch (error) {
    if (codeOf(error) === "EEXIST") return false;
    throw error;
  } finally {
    rmSync(draft, { force: true });
  }
  return true;
};

/** The file by which a dead process's lock passes on: no two locks say the same. */
const heirOf = (lock: string, text: string): string =>
  `${lock}.${createHash("sha256").update(text).digest("hex").slice(0, 32)}`;

/**
 * Take a lock. Of several that find its process dead one makes the file that inherits from it (or
 * from an heir that died, too), sees that the lock still says what it said, and puts its own in its
 * place. Throws StateError where another process, or another client of this one, has it.
 */
export const takeLock = (lock: string): void => {
  const mine = `${processOf(process.pid)} ${randomUUID()}`;
  for (let tries = 0; tries < 3; tries++) {
    const first = said(lock);
    if (first === undefined) {
      if (make(lock, mine)) return;
      continue;
    }
    let last: string | undefined = first;
    let heir = lock;
    while (last !== undefined && !isAlive(last)) last = said((heir = heirOf(lock, last)));
    if (last !== undefined) break;
    if (!make(heir, mine)) continue;
    if (said(lock) === first) {
      renameSync(heir, lock);
      return sweep(lock);
    }
    rmSync(heir, { force: true }); // another inherited before, and has put its own in the lock since
  }
  throw new StateError("state_in_use", "storage_busy");
};

/** Remove the heirs of locks that are gone. */
const sweep = (lock: string): void => {
  for (const name of readdirSync(dirname(lock))) {
    if (/\.[0-9a-f]{32}$/.test(name) && name.startsWith(`${basename(lock)}.`)) rmSync(join(dirname(lock), name), { force: true });
  }
};
