// The screen as a part of the address, so that back, forward and reload work. Identifiers and days only, no names.

/** A place in a conversation: a note, or the first note of a day (2026-11-21). */
export type Spot = { note: string } | { day: string };

export type Route =
  | { screen: 'chats' }
  | { screen: 'thread'; contact: string; about: boolean; spot?: Spot }
  | { screen: 'search'; contact?: string }
  | { screen: 'add' }
  | { screen: 'observer' }
  | { screen: 'mixnet' }
  | { screen: 'mesh' }
  | { screen: 'link' }
  | { screen: 'guard' }
  | { screen: 'health' }
  | { screen: 'requests' }
  | { screen: 'settings' }
  | { screen: 'backup' }
  | { screen: 'restore' }
  | { screen: 'move' };

const PLACES = ['add', 'observer', 'mixnet', 'mesh', 'link', 'guard', 'health', 'requests', 'settings', 'backup', 'restore', 'move'] as const;
const NUMBER = /^\d+$/;
const DAY = /^\d{4}-\d{2}-\d{2}$/;

/** Reads `#/...`; whatever is not understood is the list of chats. */
export function parse(hash: string): Route {
  const [head, id, tail, at] = hash.replace(/^#\/?/, '').split('/');
  const contact = id && NUMBER.test(id) ? id : undefined;
  if (head === 'c' && contact) {
    const thread = { screen: 'thread' as const, contact, about: tail === 'about' };
    if (tail === 'note' && at && NUMBER.test(at)) return { ...thread, spot: { note: at } };
    if (tail === 'day' && at && DAY.test(at)) return { ...thread, spot: { day: at } };
    return thread;
  }
  if (head === 'search') return contact ? { screen: 'search', contact } : { screen: 'search' };
  const place = PLACES.find((name) => name === head);
  return { screen: place ?? 'chats' };
}

/** Writes a route as an address. */
export function href(route: Route): string {
  if (route.screen === 'thread') {
    const { spot } = route;
    const tail = route.about ? '/about' : !spot ? '' : 'note' in spot ? `/note/${spot.note}` : `/day/${spot.day}`;
    return `#/c/${route.contact}${tail}`;
  }
  if (route.screen === 'search') return route.contact ? `#/search/${route.contact}` : '#/search';
  return route.screen === 'chats' ? '#/' : `#/${route.screen}`;
}
