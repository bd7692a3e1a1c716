// Keys that belong to an input method and not to the page.

/** Whether this key is part of a composition. Safari ends one first and tells of the key then: 229 is all it says. */
export function isComposed(event: Pick<KeyboardEvent, 'isComposing' | 'keyCode'>): boolean {
  return event.isComposing || event.keyCode === 229;
}

/** Keeps Enter that ends a composition from every form and field, before any of them hears of it. */
export function holdBack(event: KeyboardEvent): void {
  if (event.key !== 'Enter' || !isComposed(event)) return;
  event.preventDefault();
  event.stopPropagation();
}
