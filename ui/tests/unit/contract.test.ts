// The types by hand against the description that the program serves: no field too few, none too many.
import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';

/** Our name for each schema that the page reads. */
const NAMES = {
  Status: 'Status', Relay: 'Relay', RelayOffer: 'RelayOffer', Me: 'Me', Policy: 'Policy', Contact: 'Contact', Fact: 'Fact', Note: 'Note', Change: 'Change', Offer: 'Offer', Preview: 'Preview',
  Request: 'StrangerRequest', CarrierView: 'Carrier', Mixnet: 'Mixnet', Promised: 'Promise', SafetyNumber: 'Number', Field: 'ObserverField', ObserverEvent: 'ObserverEvent', HealthLine: 'HealthLine',
  NodeEvent: 'Event', Problem: 'Problem', RestoreMark: 'RestoreMark', Restored: 'Restored', Backup: 'Backup', Backups: 'Backups', Progress: 'Progress',
  FoundNotes: 'FoundNotes', Mesh: 'Mesh', MeshNode: 'MeshNode', MeshNeighbour: 'MeshNeighbour',
  Guard: 'Guard', LeakOrder: 'LeakOrder', LeakBegin: 'LeakBegin', LeakReading: 'LeakReading', LeakResult: 'LeakResult', LeakFault: 'LeakFault',
  MoveRecipient: 'MoveRecipient', MoveDigits: 'MoveDigits', MoveKey: 'MoveKey',
};
/** Fields of interest to other clients only. */
const NOT_OURS: Record<string, string[]> = { Problem: ['exit'] };

const source = readFileSync(new URL('../../src/api.ts', import.meta.url), 'utf8');
const served = JSON.parse(readFileSync(new URL('../../../crates/mezza/openapi.json', import.meta.url), 'utf8')) as {
  components: { schemas: Record<string, { properties: Record<string, unknown> }> };
};

function fieldsOf(name: string): string[] {
  const body = new RegExp(`export interface ${name} \\{\\n([\\s\\S]*?)\\n\\}`).exec(source)?.[1] ?? '';
  return [...body.matchAll(/^ {2}(\w+)\??:/gm)].map((found) => found[1] ?? '').sort();
}

test.each(Object.entries(NAMES))('%s has the fields of the schema %s', (ours, theirs) => {
  const fields = Object.keys(served.components.schemas[theirs]?.properties ?? {});
  expect(fields.length).toBeGreaterThan(0);
  expect(fieldsOf(ours)).toEqual(fields.filter((field) => !NOT_OURS[ours]?.includes(field)).sort());
});
