import type { components } from "./generated/schema.js"

/** A type of the contract by its name, such as Schema<"TaskDetail">. */
export type Schema<Name extends keyof components["schemas"]> = components["schemas"][Name]
