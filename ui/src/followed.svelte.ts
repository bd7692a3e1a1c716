// What a field shows of a fact that may change while somebody writes in the field.
import { untrack } from 'svelte';

/** The text of a field: it follows its source until the person writes another one (WEB-15). */
export class Followed {
  text = $state('');

  constructor(source: () => string) {
    let followed = '';
    $effect(() => {
      const now = source();
      if (untrack(() => this.text.trim()) === followed) this.text = now;
      followed = now;
    });
  }
}
