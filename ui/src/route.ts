// The screen as a part of the address, so that back, forward and reload work. Identifiers only, no names.

export type Route =
  | { screen: 'chats' }
  | { screen: 'thread'; contact: string; about: boolean }
  | { screen: 'add' }
  | { screen: 'observer' }
  | { screen: 'mixnet' }
  | { screen: 'health' }
  | { screen: 'requests' }
  | { screen: 'settings' }
  | { screen: 'backup' }
  | { screen: 'restore' }
  | { screen: 'move' };

const PLACES = ['add', 'observer', 'mixnet', 'health', 'requests', 'settings', 'backup', 'restore', 'move'] as const;

/** Reads `#/...`; whatever is not understood is the list of chats. */
export function parse(hash: string): Route {
  const [head, id, tail] = hash.replace(/^#\/?/, '').split('/');
  if (head === 'c' && id && /^\d+$/.test(id)) return { screen: 'thread', contact: id, about: tail === 'about' };
  const place = PLACES.find((name) => name === head);
  return { screen: place ?? 'chats' };
}

/** Writes a route as an address. */
export function href(route: Route): string {
  if (route.screen === 'thread') return `#/c/${route.contact}${route.about ? '/about' : ''}`;
  return route.screen === 'chats' ? '#/' : `#/${route.screen}`;
}
