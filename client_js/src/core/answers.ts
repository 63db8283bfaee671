/** What a collector answers to a batch, and what each answer means for the sender. */

import { toHex } from "./bytes.js";
import { sha256 } from "./sha256.js";

/** What came back. retryAfter, contentType: of the headers, or "". */
export interface Response {
  readonly status: number;
  readonly contentType: string;
  readonly retryAfter: string;
  readonly text: string;
}

/** final: the collector itself says so of these bytes, and counted none of them.  results: "" for an accepted report, otherwise the reason, in the order of the batch. */
export type Verdict =
  | { readonly kind: "answered"; readonly results: readonly string[] }
  | { readonly kind: "large"; readonly final: boolean }
  | { readonly kind: "again"; readonly reason: string; readonly wait: number }
  | { readonly kind: "never"; readonly reason: string };

const FINAL = [400, 409, 415, 422];
const TRANSIENT = [408, 425, 429];
const URN = "urn:rappor-telemetry:problem:";
const MAX_REASON = 64;

const parsed = (text: string): Record<string, unknown> => {
  try {
    const value: unknown = JSON.parse(text);
    if (typeof value === "object" && value !== null) return value as Record<string, unknown>;
  } catch {
    // not JSON: not an answer
  }
  return {};
};

/**
 * Only the collector's own word about this very batch lets it be forgotten: an answer with a result for each report, or
 * a problem document that names the digest of the body as it was sent. A gateway may have lost or changed it.
 */
export const readResponse = (response: Response, id: string, reports: number, now: number, body: Uint8Array): Verdict => {
  const { status, contentType, retryAfter, text } = response;
  const fields = parsed(text);
  if (status === 200) {
    const results = resultsOf(fields, id);
    return results?.length === reports
      ? { kind: "answered", results }
      : { kind: "again", reason: "strange_answer", wait: 0 };
  }
  const reason = `http_${status}`;
  const { type, body_sha256: digest } = fields;
  const isOurs =
    contentType.split(";")[0]!.trim().toLowerCase() === "application/problem+json" &&
    typeof type === "string" &&
    type.startsWith(URN) &&
    fields["status"] === status;
  const isRead = isOurs && digest === toHex(sha256(body)); // these very bytes, by the collector itself
  if (status === 413 && (isRead || !isOurs || digest === undefined)) return { kind: "large", final: isRead };
  if (isRead && FINAL.includes(status)) return { kind: "never", reason };
  const slow = TRANSIENT.includes(status) || status >= 500;
  return { kind: "again", reason, wait: slow ? secondsOf(retryAfter, now) : 0 };
};

const resultsOf = (fields: Record<string, unknown>, id: string): string[] | undefined => {
  const { version, batch_id: batch, results } = fields;
  if (version !== 1 || batch !== id || !Array.isArray(results)) return undefined;
  const reasons: string[] = [];
  for (const result of results as (Record<string, unknown> | null)[]) {
    const { status, reason } = result ?? {};
    if (status === "accepted") reasons.push("");
    else if (status === "refused" && typeof reason === "string") reasons.push(reason.slice(0, MAX_REASON) || "?");
    else return undefined;
  }
  return reasons;
};

/** Seconds of a Retry-After header: a number, or an HTTP date; 0 for neither. */
const secondsOf = (header: string, now: number): number => {
  if (/^\s*\d+\s*$/.test(header)) return Number(header);
  const at = Date.parse(header) / 1000;
  return at > now ? at - now : 0;
};
