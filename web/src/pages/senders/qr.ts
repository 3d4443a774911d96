// A text as a QR code, drawn as one path, which needs no style.

/** The modules of the code as squares of size 1, with the quiet zone of four modules around them. */
export async function qrPath(text: string): Promise<{ size: number; path: string }> {
  const { create } = await import('qrcode')
  const { modules } = create(text, { errorCorrectionLevel: 'M' })
  const quiet = 4
  let path = ''
  for (let row = 0; row < modules.size; row++)
    for (let column = 0; column < modules.size; column++) if (modules.get(row, column)) path += `M${column + quiet} ${row + quiet}h1v1h-1z`
  return { size: modules.size + 2 * quiet, path }
}
