// Writes src/api/kinds.ts: the schemas of the configuration of each kind of sender, as api/openapi.yaml names them (x-lksms-config).
import { readFileSync, writeFileSync } from 'node:fs'
import { load } from 'js-yaml'

const contract = load(readFileSync(new URL('../../api/openapi.yaml', import.meta.url), 'utf8'))
const kinds = contract.components.schemas.SenderKind['x-lksms-config']

/** Checks that the form has a field for every part of a schema. */
function check(schema, path) {
  const known = ['string', 'number', 'integer', 'boolean', 'object', 'array', undefined]
  if (!known.includes(schema.type)) throw new Error(`${path}: the form has no field for the type ${schema.type}`)
  for (const [name, part] of Object.entries(schema.properties ?? {})) check(part, `${path}.${name}`)
}
for (const [kind, schema] of Object.entries(kinds)) check(schema, kind)

writeFileSync(
  new URL('../src/api/kinds.ts', import.meta.url),
  `// Made from api/openapi.yaml by npm run types.
import type { ConfigSchema } from '@/pages/senders/config'

export const kinds: Record<string, ConfigSchema> = ${JSON.stringify(kinds, null, 2)}
`,
)
