// The proof that the node is the one in which this tab came in (WEB-17). Once the node is gone any user of
// the machine may listen on its port, so that a tab sends nothing to a port before it has seen the proof.

const LABEL = new TextEncoder().encode('mezza/page-proof');
const HEX = /^(?:[0-9a-f]{2})*$/;

const bytes = (hex: string): Uint8Array<ArrayBuffer> => Uint8Array.from(HEX.test(hex) ? (hex.match(/../g) ?? []) : [], (pair) => parseInt(pair, 16));

/** Returns 32 bytes by chance, in hexadecimal digits. */
export const challenge = (): string => [...crypto.getRandomValues(new Uint8Array(32))].map((byte) => byte.toString(16).padStart(2, '0')).join('');

/** Returns true if `mac` is HMAC-SHA-256 of the challenge under this key; all three in hexadecimal digits. */
export async function verify(key: string, asked: string, mac: string): Promise<boolean> {
  if (key.length !== 64 || mac.length !== 64) return false;
  const held = await crypto.subtle.importKey('raw', bytes(key), { name: 'HMAC', hash: 'SHA-256' }, false, ['verify']);
  return crypto.subtle.verify('HMAC', held, bytes(mac), new Uint8Array([...LABEL, ...bytes(asked)]));
}
