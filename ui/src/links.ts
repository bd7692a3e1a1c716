// Addresses in the words of a person. One is opened only after a question that shows all of it.

/** A part of a text: words, or an address. */
export interface TextPart {
  text: string;
  link: boolean;
}

// No white space, quotes or brackets, and no character that turns or hides what stands beside it.
const LINK = /https?:\/\/[^\s<>"'`{}|\\^\u00ad\u061c\u180e\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufeff]+/giu;
const LINK_MAX = 2_048;

/** The address without the punctuation that ends a sentence, or a bracket that was opened before it. */
function trimmed(found: string): string {
  let text = found.replace(/[.,;:!?…]+$/u, '');
  while (/[)\]]$/.test(text)) {
    const [open, shut] = text.endsWith(')') ? ['(', ')'] : ['[', ']'];
    if (text.split(open).length >= text.split(shut).length) break;
    text = text.slice(0, -1).replace(/[.,;:!?…]+$/u, '');
  }
  return text;
}

/** The host that an address leads to, as a browser reads it (punycode); null if it may not be opened. */
export function hostOf(address: string): string | null {
  if (address.length > LINK_MAX || !URL.canParse(address)) return null;
  const url = new URL(address);
  // A name before the host is a usual way to make one host look like another.
  const plain = url.username === '' && url.password === '';
  return plain && ['http:', 'https:'].includes(url.protocol) && url.hostname !== '' ? url.host : null;
}

/** A text in parts: words, and addresses that may be opened. */
export function linkParts(text: string): TextPart[] {
  const parts: TextPart[] = [];
  let at = 0;
  for (const found of text.matchAll(LINK)) {
    const link = trimmed(found[0]);
    if (hostOf(link) === null) continue;
    parts.push({ text: text.slice(at, found.index), link: false }, { text: link, link: true });
    at = found.index + link.length;
  }
  parts.push({ text: text.slice(at), link: false });
  return parts.filter((part) => part.text !== '');
}
