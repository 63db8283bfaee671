/** Cells of a grid over a box: quadkey, geohash, square, h3 (docs/porting.md, part 7). */

import { MetricsFileError, ValueRefusedError } from "../core/errors.js";
import { OTHER, type Place } from "../core/metrics.js";
import { h3Code, h3InBox, type H3 } from "./h3.js";

/** A grid as a definition has it. */
export type GridFields = Place["grid"];

const ALPHABET = "0123456789bcdefghjkmnpqrstuvwxyz";
const MAX_CELLS = 1_000_000;

const clamp = (value: number, size: number): number => Math.min(Math.max(Math.trunc(value), 0), size - 1);

/** One cell at a level by its column and row: rows from the south, but for quadkeys; or its H3 index. */
export type Cell = { readonly x: number; readonly y: number } | string;

const inBox = ([south, west, north, east]: GridFields["box"], latitude: number, longitude: number): boolean => {
  if (!(south <= latitude && latitude <= north)) return false;
  const [after, before] = [longitude >= west, longitude <= east];
  return west <= east ? after && before : after || before;
};

const modulo = (value: number, by: number): number => ((value % by) + by) % by;

/** A grid of a definition that was checked. h3: the library, where the grid is of its cells. */
export class Grid {
  constructor(
    readonly fields: GridFields,
    private readonly h3?: H3,
  ) {}

  get finest(): number {
    return this.fields.levels.at(-1)!;
  }

  /** The finest cell of a point in degrees, or undefined outside the box. Throws ValueRefusedError. */
  locate(latitude: number, longitude: number): Cell | undefined {
    const { box } = this.fields;
    if (typeof latitude !== "number" || typeof longitude !== "number") throw refused("is not two numbers of degrees");
    const [south, west, north, east] = box;
    const inside = south <= latitude && latitude <= north && west <= longitude && longitude <= east;
    if (!inside) longitude = this.wrapped(latitude, longitude);
    return inside || inBox(box, latitude, longitude) ? this.cell(latitude, longitude, this.finest) : undefined;
  }

  /** The value of a finest cell at a level. */
  value(cell: Cell | undefined, level: number): string {
    return cell ? this.name(this.parent(cell, level), level) : OTHER;
  }

  /** The cell of level `level` that holds a finest one. */
  parent(cell: Cell, level: number): Cell {
    const { kind } = this.fields;
    if (typeof cell === "string") return this.h3!.cellToParent(cell, level);
    const { x, y } = cell;
    const [bitsX, bitsY] = [bits(kind, this.finest), bits(kind, level)];
    return { x: Math.floor(x / 2 ** (bitsX[0] - bitsY[0])), y: Math.floor(y / 2 ** (bitsX[1] - bitsY[1])) };
  }

  name(cell: Cell, level: number): string {
    const { kind } = this.fields;
    if (typeof cell === "string") return cell;
    if (kind === "square") return `${level}-${cell.y}-${cell.x}`;
    const code = this.code(cell, level);
    const each = kind === "quadkey" ? 2n : 5n;
    let text = "";
    for (let i = BigInt(level) - 1n; i >= 0n; i--) text += ALPHABET[Number((code >> (i * each)) & ((1n << each) - 1n))];
    return text;
  }

  /** The integer by which cells of a level are ordered. */
  code(cell: Cell, level: number): bigint {
    const { kind, columns } = this.fields;
    if (typeof cell === "string") return h3Code(cell);
    const { x, y } = cell;
    if (kind === "square") return BigInt(y) * BigInt(columns * 2 ** level) + BigInt(x);
    return kind === "quadkey" || level % 2 ? interleave(x, y) : interleave(y, x);
  }

  /** Every value of a level with its bit: the cells of the box by code, `other`, `no_data` if declared. */
  domain(level: number, noData?: string): Map<string, number> {
    const cells = this.h3 && this.fields.kind === "h3" ? this.hexagons(level) : this.cells(level);
    cells.sort(([a], [b]) => (a < b ? -1 : 1));
    const reserved = noData === undefined ? [OTHER] : [OTHER, noData];
    return new Map([...cells.map(([, name]) => name), ...reserved].map((name, bit) => [name, bit]));
  }

  /** Coarser levels hold the parents of the finest cells in the box. */
  private hexagons(level: number): [bigint, string][] {
    const finest = h3InBox(this.h3!, this.fields.box, this.finest);
    const names = new Set(finest.map((cell) => this.name(this.parent(cell, level), level)));
    return [...names].map((name) => [h3Code(name), name]);
  }

  private cells(level: number): [bigint, string][] {
    const [south, west, north, east] = this.fields.box;
    const [one, two] = [this.square(south, west, level), this.square(north, east, level)];
    const [bottom, top] = one.y < two.y ? [one.y, two.y] : [two.y, one.y];
    const width = this.size(level)[0];
    const spans: [number, number][] = west <= east ? [[one.x, two.x]] : two.x >= one.x ? [[0, width - 1]] : [[one.x, width - 1], [0, two.x]];
    if (this.fields.kind === "square") spans.splice(0, 2, [0, width - 1]);
    const number = (top - bottom + 1) * spans.reduce((sum, [first, last]) => sum + last - first + 1, 0);
    if (number > MAX_CELLS) throw new MetricsFileError("metrics_file", "grid: more than a million cells");
    const cells: [bigint, string][] = [];
    for (let y = bottom; y <= top; y++) {
      for (const [first, last] of spans) {
        for (let x = first; x <= last; x++) cells.push([this.code({ x, y }, level), this.name({ x, y }, level)]);
      }
    }
    return cells;
  }

  private wrapped(latitude: number, longitude: number): number {
    const { box } = this.fields;
    if (!Number.isFinite(latitude) || !Number.isFinite(longitude)) throw refused("is not finite");
    if (Math.abs(longitude) > 360) throw refused("has a longitude that is not between -360 and 360 degrees");
    const wrapped = modulo(longitude + 180, 360) - 180;
    if (Math.abs(longitude) <= 90 && inBox(box, longitude, latitude)) {
      throw refused("lies in the box only with latitude and longitude swapped");
    }
    if (Math.abs(latitude) > 90) throw refused("has a latitude that is not between -90 and 90 degrees");
    return wrapped === -180 && !inBox(box, latitude, wrapped) ? 180 : wrapped;
  }

  private size(level: number): [number, number] {
    const { kind, rows, columns } = this.fields;
    const [forX, forY] = bits(kind, level);
    return kind === "square" ? [columns * 2 ** level, rows * 2 ** level] : [2 ** forX, 2 ** forY];
  }

  private cell(latitude: number, longitude: number, level: number): Cell {
    return this.fields.kind === "h3" ? this.h3!.latLngToCell(latitude, longitude, level) : this.square(latitude, longitude, level);
  }

  private square(latitude: number, longitude: number, level: number): { x: number; y: number } {
    const [columns, rows] = this.size(level);
    const { kind, box } = this.fields;
    const turn = (longitude + 180) / 360;
    if (kind === "geohash") return { x: clamp(turn * columns, columns), y: clamp(((latitude + 90) / 180) * rows, rows) };
    if (kind === "quadkey") {
      const sine = Math.sin(latitude * (Math.PI / 180));
      const down = sine > -1 && sine < 1 ? 0.5 - Math.atanh(sine) * (1 / (2 * Math.PI)) : -sine;
      return { x: clamp(turn * columns, columns), y: clamp(down * rows, rows) };
    }
    const [south, west, north, east] = box;
    const over = west > east;
    const ahead = longitude - west;
    const across = (over && ahead < 0 ? ahead + 360 : ahead) / (east - west + (over ? 360 : 0));
    return { x: clamp(across * columns, columns), y: clamp(((latitude - south) / (north - south)) * rows, rows) };
  }
}

/** Binary digits of column and row at a level. */
const bits = (kind: GridFields["kind"], level: number): [number, number] =>
  kind === "geohash" ? [(5 * level + 1) >> 1, (5 * level) >> 1] : [level, level];

const interleave = (low: number, high: number): bigint => {
  let code = 0n;
  for (let i = 31; i >= 0; i--) {
    code = (code << 2n) | BigInt((Math.floor(high / 2 ** i) % 2) * 2 + (Math.floor(low / 2 ** i) % 2));
  }
  return code;
};

const refused = (why: string): ValueRefusedError => new ValueRefusedError("no_point", why);
