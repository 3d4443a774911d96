// Placeholders of a template, as the server reads them (internal/dispatch/template/render.go).

const placeholder = /\{([\p{L}\p{M}\p{N}_.\u200C\u200D-]+)\}/gu

/** The names of the placeholders, each once. */
export const placeholders = (text: string): string[] => [...new Set([...text.matchAll(placeholder)].map((match) => match[1]!))]

/** The text with a value for each placeholder; one without a value stays as it is. */
export const fill = (text: string, values: Record<string, string | undefined>): string => text.replace(placeholder, (whole, name: string) => values[name] || whole)
