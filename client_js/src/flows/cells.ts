/** Zones and centers of cells, by their names. */

import type { GridFields } from "../places/grid.js";
import type { H3 } from "../places/h3.js";

const ALPHABET = "0123456789bcdefghjkmnpqrstuvwxyz";

/** The parent of a cell, at the coarse level of a grid of two. */
export const zoneNameOf = ({ kind, levels }: GridFields, cell: string, h3?: H3): string => {
  const [coarse, fine] = levels as [number, number];
  if (kind === "h3") return h3!.cellToParent(cell, coarse);
  if (kind !== "square") return cell.slice(0, coarse);
  const [, row, column] = cell.split("-").map(Number) as [number, number, number];
  const step = 2 ** (fine - coarse);
  return [coarse, Math.floor(row / step), Math.floor(column / step)].join("-");
};

/** Latitude and longitude of the center of a cell: the mean of its corners, degrees. */
export const centerOf = ({ kind, box, rows, columns }: GridFields, cell: string, h3?: H3): [number, number] => {
  if (kind === "h3") {
    const corners = h3!.cellToBoundary!(cell);
    const [, first] = corners[0]!;
    const turned = corners.map(([north, east]) => [north, ((((east - first + 180) % 360) + 360) % 360) - 180] as const);
    const [north, east] = [0, 1].map((i) => turned.reduce((sum, corner) => sum + corner[i]!, 0) / corners.length) as [number, number];
    return [north, first + east];
  }
  if (kind === "square") {
    const [level, row, column] = cell.split("-").map(Number) as [number, number, number];
    const [south, west, north, east] = box;
    const width = east - west + (west > east ? 360 : 0);
    return [south + ((row + 0.5) * (north - south)) / (rows * 2 ** level), west + ((column + 0.5) * width) / (columns * 2 ** level)];
  }
  const each = kind === "quadkey" ? 2 : 5;
  let [x, y, bitsX, bitsY] = [0, 0, 0, 0];
  [...cell].forEach((letter, place) => {
    const digit = ALPHABET.indexOf(letter);
    for (let i = each - 1; i >= 0; i--) {
      const bit = (digit >> i) & 1;
      const ofX = kind === "quadkey" ? i === 0 : (place * 5 + 4 - i) % 2 === 0;
      if (ofX) [x, bitsX] = [2 * x + bit, bitsX + 1];
      else [y, bitsY] = [2 * y + bit, bitsY + 1];
    }
  });
  const east = ((x + 0.5) / 2 ** bitsX) * 360 - 180;
  if (kind === "geohash") return [((y + 0.5) / 2 ** bitsY) * 180 - 90, east];
  const latitude = (row: number): number => (Math.atan(Math.sinh(Math.PI * (1 - (2 * row) / 2 ** bitsY))) * 180) / Math.PI;
  return [(latitude(y) + latitude(y + 1)) / 2, east];
};
