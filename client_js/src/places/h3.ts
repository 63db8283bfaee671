/** Cells of H3, by the library h3-js (version 4), which the app passes: nothing here loads it. */

/** What is used of h3-js. */
export interface H3 {
  latLngToCell(latitude: number, longitude: number, resolution: number): string;
  cellToParent(cell: string, resolution: number): string;
  /** For flows alone: the corners of a cell. */
  cellToBoundary?(cell: string): [number, number][];
  polygonToCellsExperimental(polygon: [number, number][], resolution: number, flags: string): string[];
}

/** The integer by which cells are ordered. */
export const h3Code = (cell: string): bigint => BigInt(`0x${cell}`);

/** Cells that share a point with a box; in two halves where it is very wide. */
export const h3InBox = (h3: H3, box: readonly [number, number, number, number], level: number): string[] => {
  const [south, west, north, east] = box;
  const width = east - west + (west > east ? 360 : 0);
  if (width >= 180) {
    const middle = ((west + width / 2 + 540) % 360) - 180;
    return [...h3InBox(h3, [south, west, north, middle], level), ...h3InBox(h3, [south, middle, north, east], level)];
  }
  return h3.polygonToCellsExperimental([[south, west], [south, east], [north, east], [north, west]], level, "containmentOverlapping");
};
