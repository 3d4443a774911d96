// Counts the segments of a text while the viewer writes, as internal/dispatch/segment of the server does.
const basic = '@£$¥èéùìòÇ\nØø\rÅåΔ_ΦΓΛΩΠΨΣΘΞÆæßÉ !"#¤%&\'()*+,-./0123456789:;<=>?¡ABCDEFGHIJKLMNOPQRSTUVWXYZÄÖÑÜ§¿abcdefghijklmnopqrstuvwxyzäöñüà'
const extension = '\f^{}\\[~]|€'

const septets = new Map([...[...basic].map((one) => [one, 1] as const), ...[...extension].map((one) => [one, 2] as const)])

/** The number of segments of a text with its signature; a character is never split. */
export function segments(text: string): number {
  const characters = [...text]
  const isGsm = characters.every((one) => septets.has(one))
  const [alone, inPart] = isGsm ? [160, 153] : [70, 67]
  let total = 0
  let parts = 1
  let filled = 0
  for (const one of characters) {
    const size = isGsm ? septets.get(one)! : one.length
    total += size
    filled += size
    if (filled > inPart) {
      parts++
      filled = size
    }
  }
  return total <= alone ? 1 : parts
}

/** The text with a signature in front, once. */
export function signed(sign: string | null, text: string): string {
  if (!sign) return text
  const front = `【${sign}】`
  while (text.startsWith(front)) text = text.slice(front.length)
  return front + text
}
