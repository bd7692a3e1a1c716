// Bytes as rows of eight, so that three dumps stand side by side, cut where a named field begins or ends.
import type { Field } from './api.ts';

export const ROW_BYTES = 8;

/** Neighbouring bytes of one row that belong to the same field (-1: to none). */
export interface Run {
  field: number;
  hex: string;
  text: string;
}

export interface Row {
  offset: string;
  runs: Run[];
}

function printable(byte: number): string {
  return byte >= 0x20 && byte < 0x7f ? String.fromCharCode(byte) : '·';
}

/** Which field each of the first `count` bytes belongs to. Where two overlap, the shorter one is the more exact. */
export function owners(count: number, fields: Field[]): number[] {
  const owner = new Array<number>(count).fill(-1);
  const byLength = fields.map((_, at) => at).sort((a, b) => (fields[b]?.len ?? 0) - (fields[a]?.len ?? 0));
  for (const at of byLength) {
    const field = fields[at];
    if (field) owner.fill(at, Math.min(count, field.offset), Math.min(count, field.offset + field.len));
  }
  return owner;
}

/** The first `rows_max` rows of a dump. */
export function dump(hex: string, fields: Field[], rows_max: number): Row[] {
  const count = Math.min(hex.length >> 1, rows_max * ROW_BYTES);
  const owner = owners(count, fields);
  const rows: Row[] = [];
  for (let start = 0; start < count; start += ROW_BYTES) {
    const runs: Run[] = [];
    for (let at = start; at < Math.min(count, start + ROW_BYTES); at += 1) {
      const pair = hex.slice(at * 2, at * 2 + 2);
      const text = printable(Number.parseInt(pair, 16));
      const last = runs.at(-1);
      if (last && last.field === owner[at]) {
        last.hex += ` ${pair}`;
        last.text += text;
      } else {
        runs.push({ field: owner[at] ?? -1, hex: pair, text });
      }
    }
    rows.push({ offset: start.toString(16).padStart(4, '0'), runs });
  }
  return rows;
}
