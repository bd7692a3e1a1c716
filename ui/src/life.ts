// How long notes travel in the mesh, and what each life risks.
import type { MeshLife } from './api.ts';
import { t } from './fluent.ts';

/** The lives that a note may have, the shortest first. */
export const LIVES: MeshLife[] = ['minute', 'half-hour', 'half-day'];

/** The life of an entry of a list; null for the entry that chooses none. */
export const lifeOf = (value: string): MeshLife | null => LIVES.find((one) => one === value) ?? null;

/** A life in a few words. One that this page does not know is shown as the node calls it. */
export function lifeName(life: string): string {
  switch (life) {
    case 'minute': return t('life-name-minute');
    case 'half-hour': return t('life-name-half-hour');
    case 'half-day': return t('life-name-half-day');
    default: return life;
  }
}

/** How long own notes travel, and what that risks. A life that this page does not know has no words. */
export function lifeTexts(life: string | null): { lives: string; risks: string } | null {
  switch (life) {
    case 'minute': return { lives: t('life-minute'), risks: t('life-minute-risk') };
    case 'half-hour': return { lives: t('life-half-hour'), risks: t('life-half-hour-risk') };
    case 'half-day': return { lives: t('life-half-day'), risks: t('life-half-day-risk') };
    default: return null;
  }
}
