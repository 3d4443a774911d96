// What a message is made of: its recipients and the parameters of its template.

/** A number without what may be written in several ways. */
const plain = (number: string): string => number.replace(/[\s-]/g, '').replace(/^\+86(?=1\d{10}$)/, '')

/** The numbers of a text, one or several in a line, each once, as it is written first. */
export function recipients(text: string): string[] {
  // Spaces may stand inside a number, so that only other characters separate numbers.
  const all = text.split(/[\n\r\t,;，；、]+/).map((one) => one.trim()).filter(Boolean)
  const first = new Map<string, string>()
  for (const one of all) if (!first.has(plain(one))) first.set(plain(one), one)
  return [...first.values()]
}

/** Whether a text may be a phone number, as people write them: the server reads it. */
export const isNumber = (text: string): boolean => text.length <= 50 && !/\p{L}/u.test(text) && (text.match(/\p{Nd}/gu)?.length ?? 0) >= 7

// Only what would be misread is escaped: the parameters together have at most 200 characters.
const escape = (text: string) => text.replace(/[%&+=]/g, (character) => encodeURIComponent(character))

/** The parameters as the API takes them. Without any, they are '&': an empty text would send the default content instead of the template. */
export const parameters = (values: Record<string, string>): string =>
  Object.entries(values)
    .map(([name, value]) => `${escape(name)}=${escape(value)}`)
    .join('&') || '&'
