// Writes src/generated from the contract: its types, and what a call needs to know of each operation.
import { mkdirSync, readFileSync, writeFileSync } from "node:fs"
import { pathToFileURL } from "node:url"
import { load } from "js-yaml"
import openapiTS, { astToString } from "openapi-typescript"

const [contract, folder] = process.argv.slice(2)
mkdirSync(folder, { recursive: true })
writeFileSync(`${folder}/schema.ts`, astToString(await openapiTS(pathToFileURL(contract))))

// The contract says in words alone that repeating a report is harmless if it names its lease: without, it ends whichever lease its app holds now.
const reports = ["reportTask", "reportTasks"]

const { paths, components } = load(readFileSync(contract, "utf8"))
const deref = (thing) => (thing?.$ref ? components[thing.$ref.split("/")[2]][thing.$ref.split("/")[3]] : thing)
const lines = []
for (const [path, item] of Object.entries(paths)) {
  for (const method of ["get", "post", "put", "patch", "delete"]) {
    const operation = item[method]
    if (!operation) continue
    const type = Object.keys(deref(operation.responses["200"]).content)[0]
    // Callbacks of providers and the stream of the console are not for this client.
    if (type === "*/*" || type === "text/event-stream") continue
    const parameters = [...(item.parameters ?? []), ...(operation.parameters ?? [])].map(deref)
    const lists = parameters.filter((p) => p.in === "query" && deref(p.schema).type === "array")
    if (lists.some((p) => (p.style ?? "form") !== "form")) throw new Error(`${operation.operationId}: a list in its query is not written as form`)
    const commas = lists.filter((p) => p.explode === false).map((p) => p.name)
    const key = parameters.some((p) => p.in === "header" && p.name === "Idempotency-Key")
    // A claim by GET takes leases, and a second one takes others.
    const claims = path.endsWith("/tasks/pending")
    const repeatable = (method === "get" && !claims) || operation.operationId === "startTasks" // a started lease stays as it is
    const facts = [`method: "${method.toUpperCase()}"`, `path: "${path}"`]
    if (key) facts.push("key: true")
    if (repeatable) facts.push("repeatable: true")
    if (reports.includes(operation.operationId)) facts.push("reports: true")
    if (commas.length > 0) facts.push(`commas: ${JSON.stringify(commas)}`)
    lines.push(`  ${operation.operationId}: { ${facts.join(", ")} },`)
  }
}
writeFileSync(
  `${folder}/operations.ts`,
  `// Generated from the contract. key: the operation takes an Idempotency-Key. repeatable: a second execution changes nothing.
// reports: a second execution changes nothing if each report in the body names its lease.
// commas: the lists in its query that are one text with commas; others repeat their name.
export interface Facts {
  readonly method: string
  readonly path: string
  readonly key?: true
  readonly repeatable?: true
  readonly reports?: true
  readonly commas?: readonly string[]
}

export const table = {
${lines.join("\n")}
} as const satisfies Record<string, Facts>
`,
)
