// The mesh in words: its clock, what this device carries, and why a note may not leave.
import english from '../i18n/en-mesh.ftl?raw';
import type { Mesh, MeshNode } from './api.ts';
import { addEnglish, t } from './fluent.ts';
import { durationText, intervalText } from './mixnet.ts';
import { dayText } from './time.ts';

addEnglish(english);

/** Length of a tick, ms. */
export const TICK_MS = 30_000;
const DAY_MS = 86_400_000;
/** A neighbour without frames for this time is not counted as present, ms. */
export const SILENT_MS = 10_000;

/** Whether keys may depend on this clock: the system vouches for it, or the neighbours agree. */
export const confirmed = (node: Pick<MeshNode, 'grade' | 'state'>): boolean => node.grade === 'good' || node.state === 'agreed';

/** How far the clock may be off, and what vouches for it. */
export function clockTexts(node: MeshNode): string[] {
  const bound = t('mesh-clock-within', { time: intervalText(Math.round(node.within_ms / 100) * 100) });
  const who = node.grade === 'good' ? t('mesh-clock-system') : node.state === 'agreed' ? t('mesh-clock-agreed') : t('mesh-clock-open');
  return [`${bound} ${who}`, ...(node.trusted_ms === null ? [] : [t('mesh-clock-trusted', { time: intervalText(Math.abs(node.trusted_ms)) })])];
}

/** What keeps notes from leaving or arriving over the mesh now. */
export function meshReasons(mesh: Mesh): string[] {
  const { node } = mesh;
  if (!mesh.on || !node) return [];
  const seconds = (ms: number): string => durationText(Math.abs(ms));
  return [
    ...(mesh.has_keys ? [] : [t('mesh-no-keys')]),
    ...(node.links.length > 0 ? [] : [t('mesh-no-link')]),
    ...(node.around > 0 ? [] : [t('mesh-nobody')]),
    ...(confirmed(node) ? [] : [t('mesh-clock-unconfirmed')]),
    ...(node.elsewhere_ms === null ? [] : [node.elsewhere_ms > 0 ? t('mesh-clock-behind', { time: seconds(node.elsewhere_ms) }) : t('mesh-clock-ahead', { time: seconds(node.elsewhere_ms) })]),
    ...(node.other_day === null ? [] : [t('mesh-other-day', { count: node.other_devices ?? 0, day: dayText(node.other_day * DAY_MS) })]),
  ];
}
