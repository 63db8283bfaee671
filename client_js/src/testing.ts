/** For the tests of an app: a collector in memory, and a fixed source of bits. No production code imports it. */

import type { Response as Answer } from "./core/answers.js";
import { bigEndian, concat, toHex } from "./core/bytes.js";
import { decodeBatch } from "./core/decode.js";
import { WireFormatError } from "./core/errors.js";
import type { Randomness } from "./core/device.js";
import type { Metrics } from "./core/metrics.js";
import { sha256 } from "./core/sha256.js";
import { shake256 } from "./core/shake.js";
import type { QueuedReport } from "./core/state.js";
import type { Request } from "./ports/transport.js";

const PROBLEM = "application/problem+json";

/** Bytes that are the same in every run: SHAKE-256 of a seed and a counter, as Python's FixedRandomness. */
export const fixedRandomness = (seed = 0): Randomness => {
  let calls = 0;
  return (numBytes) => shake256(concat([bigEndian(seed, 8), bigEndian(++calls, 8)]), numBytes);
};

/** What is read of a request. */
export type Received = Pick<Request, "body" | "contentType" | "encoding">;

interface Seen {
  readonly body: string;
  readonly results: readonly object[];
}

/**
 * A collector that keeps every report that it counted. Pass its `transport` to the client, or
 * serve it over HTTP with `listen` (in Node).
 */
export class MemoryCollector {
  readonly reports: QueuedReport[] = [];
  readonly requests: Received[] = [];
  duplicates = 0;
  /** How many batches are counted without the device hearing of it. */
  loseAnswers = 0;
  /** Called with the reports of a batch before they are counted; what it gives is answered in their place; it may throw. */
  answer: ((reports: readonly QueuedReport[]) => Partial<Answer> | undefined) | undefined;
  private readonly seen = new Map<string, Seen>();

  /** metrics: of `readMetrics`; where they are given, reports of others are refused by name. */
  constructor(private readonly metrics?: Metrics) {}

  /** How many reports of each metric were counted. */
  counted(): Record<string, number> {
    const counts: Record<string, number> = {};
    for (const { metric } of this.reports) counts[metric] = (counts[metric] ?? 0) + 1;
    return counts;
  }

  /** In place of `fetch`: `Client.open({ transport: collector.transport, ... })`. */
  readonly transport = async (request: Received): Promise<Answer> => {
    this.requests.push(request);
    const { body, contentType, encoding } = request;
    const body_sha256 = toHex(sha256(body)); // of a body that was read whole, as the collector does
    try {
      const plain = encoding === "gzip" ? await inflated(body) : body;
      const { id, reports } = decodeBatch(plain, contentType);
      const instead = this.answer?.(reports);
      return instead ? { ...answerOf(200, {}), ...instead } : this.take(id, reports, toHex(plain), body_sha256);
    } catch (error) {
      if (error instanceof WireFormatError) return answerOf(400, { title: "not a batch", detail: error.message, body_sha256 });
      throw error;
    }
  };

  private take(id: string, reports: readonly QueuedReport[], body: string, body_sha256: string): Answer {
    const before = this.seen.get(id);
    if (before && before.body !== body) return answerOf(409, { title: "batch id used before with another body", body_sha256 });
    const results = before?.results ?? reports.map((report) => this.resultOf(report));
    if (before) this.duplicates++;
    this.seen.set(id, { body, results });
    if (this.loseAnswers > 0) {
      this.loseAnswers--;
      throw new TypeError("the answer is lost");
    }
    return answerOf(200, { version: 1, batch_id: id, duplicate: before !== undefined, results });
  }

  private resultOf(report: QueuedReport): object {
    const metric = this.metrics?.metrics.get(report.metric);
    if (this.metrics && metric?.paramsId !== report.params_id) {
      return { status: "refused", reason: metric ? "wrong_params_id" : "unknown_metric" };
    }
    this.reports.push(report);
    return { status: "accepted" };
  }
}

/** An answer of a collector; a problem document where the status is not 200. */
const answerOf = (status: number, document: object): Answer => {
  const whole = status === 200 ? document : { type: "urn:rappor-telemetry:problem:test", status, ...document };
  return { status, contentType: status === 200 ? "application/json" : PROBLEM, retryAfter: "", text: JSON.stringify(whole) };
};

const inflated = async (body: Uint8Array): Promise<Uint8Array> => {
  const stream = new Blob([body as BlobPart]).stream().pipeThrough(new DecompressionStream("gzip"));
  try {
    return new Uint8Array(await new Response(stream).arrayBuffer());
  } catch {
    throw new WireFormatError("not gzip");
  }
};
