/** From a pair of usual cells to the class of one question about it, and its symbol (docs/protocol.md, "Flows"). */

import { utf8 } from "../core/bytes.js";
import { mmh3Positions } from "../core/hashing.js";
import { NO_DATA, type Definition, type Metric } from "../core/metrics.js";
import { wrongType } from "../core/values.js";
import { Grid, type GridFields } from "../places/grid.js";
import type { H3 } from "../places/h3.js";
import { centerOf, zoneNameOf } from "./cells.js";

/** `details` of a definition of kind `flow`. */
export interface FlowDetails {
  readonly grid: GridFields;
  readonly from: string;
  readonly to: string;
  readonly bands_km: readonly number[];
  readonly mode: "once" | "window";
  readonly spread: number;
  readonly window: number;
  readonly lag: number;
  readonly max_gap_minutes: number;
}

export const flowOf = (definition: Definition): FlowDetails => definition.details as FlowDetails;

/** What a cohort asks, by its number modulo 10. */
const ASKED = ["home", "home", "work", "work", "distance", "zones", "zones", "pair", "pair", "pair"] as const;
export type Question = (typeof ASKED)[number];

export const questionOf = (cohort: number): Question => ASKED[cohort % 10]!;

const EARTH_RADIUS = 6_371_000; // meters

/** The sides of the pairs of one metric: cells in order, `other`, `no_data`; and their classes. */
export class Sides {
  /** Names of a side's values, with their indices. */
  readonly index: ReadonlyMap<string, number>;
  readonly cells: readonly string[];
  private sorted: { readonly zones: readonly string[]; readonly zoneOf: readonly number[] } | undefined;

  constructor(
    private readonly details: FlowDetails,
    private readonly h3?: H3,
  ) {
    const grid = new Grid(details.grid, h3);
    this.index = grid.domain(grid.finest, NO_DATA);
    this.cells = [...this.index.keys()].slice(0, -2);
  }

  /** Names of the zones, and the zone of each cell. */
  get zones(): { readonly zones: readonly string[]; readonly zoneOf: readonly number[] } {
    if (!this.sorted) {
      const names = this.cells.map((cell) => zoneNameOf(this.details.grid, cell, this.h3));
      const zones = [...new Set(names)]; // cells are in the order of their parents
      this.sorted = { zones, zoneOf: names.map((name) => zones.indexOf(name)) };
    }
    return this.sorted;
  }

  /** Great circle between the centers of two cells, whole meters. */
  meters(origin: number, destination: number): number {
    const [[a, b], [c, d]] = [origin, destination].map((cell) => centerOf(this.details.grid, this.cells[cell]!, this.h3).map((degrees) => (degrees * Math.PI) / 180)) as [[number, number], [number, number]];
    const chord = Math.sin((c - a) / 2) ** 2 + Math.cos(a) * Math.cos(c) * Math.sin((d - b) / 2) ** 2;
    return Math.round(2 * EARTH_RADIUS * Math.asin(Math.min(1, Math.sqrt(chord))));
  }

  classOf(question: Question, o: number, d: number): number {
    const cells = this.cells.length;
    if (question === "home" || question === "work") return 2 * (question === "home" ? o : d) + (o === d ? 1 : 0);
    if (question === "pair") return o * (cells + 2) + d;
    if (question === "zones") {
      const { zones, zoneOf } = this.zones;
      const [from, to] = [o, d].map((side) => zoneOf[side] ?? zones.length + side - cells) as [number, number];
      return from * (zones.length + 2) + to;
    }
    const { bands_km: edges } = this.details;
    if (Math.max(o, d) >= cells) return edges.length + 2;
    return o === d ? 0 : 1 + edges.filter((edge) => Math.round(1000 * edge) < this.meters(o, d)).length;
  }

  /** The sides of a pair as text, such as `023>other`. Throws ValueRefusedError. */
  pairOf(metric: Metric, value: unknown): [number, number] {
    const [first, second = first, more] = typeof value === "string" ? value.split(">") : [];
    const [o, d] = [this.index.get(first!), this.index.get(second!)];
    const alone = first === second && !String(value).includes(">") && (o ?? 0) < this.cells.length;
    if (o === undefined || d === undefined || more !== undefined || alone) throw wrongType(metric, "pair of cells");
    return [o, d];
  }
}

/** The symbol of a class: of a distance band itself, else the hash of its text. */
export const symbolOf = (question: Question, number: number, cohort: number, symbols: number): number =>
  question === "distance" ? number : mmh3Positions(utf8(`${question} ${number}`), cohort, symbols, 1)[0]!;
