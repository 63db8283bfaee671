/** A second, small file beside the journal, by which a missing or older journal is noticed. */

import { readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { StateError } from "../core/errors.js";

/** generation: durable changes of the journal so far. check: of the secret, "" without one. */
export interface Seen {
  readonly generation: number;
  readonly check: string;
}

/**
 * Written after each durable change of the journal: the journal is never behind it, unless somebody
 * put an older one in its place. A copy of the whole directory, put back, looks right to both.
 */
export class RollbackGuard {
  private last: Seen | undefined;

  constructor(private readonly path: string) {}

  /** Compare with the journal as it was read. Throws StateError; then nothing may be recorded. */
  check(now: Seen): void {
    const seen = (this.last = this.read());
    if (seen && (now.generation < seen.generation || (now.generation === seen.generation && now.check !== seen.check))) {
      throw new StateError("state_rolled_back", "journal_old");
    }
    if (now.generation) this.note(now);
  }

  /** Replace the file unless it says so already; it is whole at every moment. */
  note(seen: Seen): void {
    if (this.last?.generation === seen.generation && this.last.check === seen.check) return;
    const draft = `${this.path}.next`;
    writeFileSync(draft, JSON.stringify({ version: 1, ...seen }), { mode: 0o600 });
    renameSync(draft, this.path); // a loss of power may leave an older one, or none, never a newer
    this.last = seen;
  }

  forget(): void {
    rmSync(this.path, { force: true });
    this.last = undefined;
  }

  /** What was seen last; undefined where there is no file, or nothing legible in it. */
  private read(): Seen | undefined {
    try {
      const { version, generation, check } = JSON.parse(readFileSync(this.path, "utf8")) as Seen & { version: unknown };
      return version === 1 && Number.isInteger(generation) ? { generation, check } : undefined;
    } catch {
      return undefined;
    }
  }
}
