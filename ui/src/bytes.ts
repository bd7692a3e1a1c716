// Sizes as the node counts them.

/** Longest text of a note, bytes of UTF-8 (protocol constant TEXT_BYTES_MAX). */
export const TEXT_BYTES_MAX = 8192;

/** Longest name on a card, bytes of UTF-8. */
export const NAME_BYTES_MAX = 24;
/** Longest name that is given to a contact, bytes of UTF-8. */
export const PETNAME_BYTES_MAX = 64;

const encoder = new TextEncoder();

/** Length of a text on the wire, bytes of UTF-8. A lone surrogate counts 3, as it is sent as U+FFFD. */
export function textBytes(text: string): number {
  return encoder.encode(text).length;
}

/** Whether the composer may send: something beside white space, and not too long. */
export function sendable(text: string): boolean {
  return text.trim() !== '' && textBytes(text) <= TEXT_BYTES_MAX;
}

/** Sixteen random bytes as hex: the id under which a note is sent, and sent again if the answer is lost. */
export function clientId(): string {
  return [...crypto.getRandomValues(new Uint8Array(16))].map((byte) => byte.toString(16).padStart(2, '0')).join('');
}

/** RGBA pixels to one grey byte each (ITU-R BT.601 weights in 1/256); transparent counts as white paper. */
export function greyPixels(rgba: Uint8ClampedArray): Uint8Array<ArrayBuffer> {
  const grey = new Uint8Array(rgba.length / 4);
  for (let at = 0, from = 0; at < grey.length; at += 1, from += 4) {
    const light = (77 * (rgba[from] ?? 0) + 150 * (rgba[from + 1] ?? 0) + 29 * (rgba[from + 2] ?? 0)) >> 8;
    grey[at] = 255 - ((255 - light) * (rgba[from + 3] ?? 0)) / 255;
  }
  return grey;
}

/** Width and height that fit into `side` pixels, proportions kept, never enlarged. */
export function fitInto(width: number, height: number, side: number): { width: number; height: number } {
  const scale = Math.min(1, side / Math.max(width, height, 1));
  return { width: Math.max(1, Math.round(width * scale)), height: Math.max(1, Math.round(height * scale)) };
}
