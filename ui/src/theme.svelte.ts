// Light, dark, or as the system has it. Kept per browser; it says nothing about a person.
export type Theme = 'system' | 'light' | 'dark';

const KEY = 'mezza.theme';
export const THEMES: Theme[] = ['system', 'light', 'dark'];

class ThemeChoice {
  now = $state<Theme>(THEMES.find((theme) => theme === localStorage.getItem(KEY)) ?? 'system');

  apply(): void {
    if (this.now === 'system') document.documentElement.removeAttribute('data-theme');
    else document.documentElement.setAttribute('data-theme', this.now);
  }

  next(): void {
    this.choose(THEMES[(THEMES.indexOf(this.now) + 1) % THEMES.length] ?? 'system');
  }

  /** Takes one of them; whatever else is named is the system's. */
  choose(name: string): void {
    this.now = THEMES.find((theme) => theme === name) ?? 'system';
    localStorage.setItem(KEY, this.now);
    this.apply();
  }
}

export const theme = new ThemeChoice();
