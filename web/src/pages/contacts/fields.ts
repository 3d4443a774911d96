import type { Schema } from '@/api/types'

export type Contact = Schema<'Contact'>

/** The addresses of a contact, and the channel that uses each. */
export const addressFields = ['phone', 'email', 'dingtalk_name', 'wechat_openid'] as const

export type AddressField = (typeof addressFields)[number]

const words: Record<string, 'user_id' | AddressField> = {
  user_id: 'user_id',
  user: 'user_id',
  用户: 'user_id',
  用户编号: 'user_id',
  phone: 'phone',
  mobile: 'phone',
  手机: 'phone',
  手机号: 'phone',
  电话: 'phone',
  email: 'email',
  'e-mail': 'email',
  邮箱: 'email',
  邮件: 'email',
  dingtalk_name: 'dingtalk_name',
  dingtalk: 'dingtalk_name',
  钉钉: 'dingtalk_name',
  wechat_openid: 'wechat_openid',
  wechat: 'wechat_openid',
  openid: 'wechat_openid',
  微信: 'wechat_openid',
}

/** The cells of a line of CSV or of a spreadsheet. Cells in quotes may hold commas; "" is a quote. */
function cells(line: string): string[] {
  const by = line.includes('\t') ? '\t' : line.includes(',') || !line.includes('，') ? ',' : '，'
  const found = ['']
  let quoted = false
  for (let at = 0; at < line.length; at++) {
    const letter = line[at]!
    if (letter === '"' && quoted && line[at + 1] === '"') {
      found[found.length - 1] += '"'
      at++
    } else if (letter === '"' && (quoted || found.at(-1)!.trim() === '')) quoted = !quoted
    else if (letter === by && !quoted) found.push('')
    else found[found.length - 1] += letter
  }
  return found.map((cell) => cell.trim())
}

/**
 * Reads contacts from lines that were pasted. The first line may name the columns; without names their order is that of the list.
 * An empty cell leaves the address as it is.
 */
export function parseContacts(text: string): Contact[] {
  const lines = text
    .split(/\r?\n/)
    .filter((line) => line.trim())
    .map(cells)
  const named = lines[0]?.map((cell) => words[cell.toLowerCase()])
  const hasHead = named?.includes('user_id') ?? false
  const columns = hasHead ? named! : (['user_id', ...addressFields] as const)
  return (hasHead ? lines.slice(1) : lines).map((line) => {
    const contact: Contact = { user_id: '' }
    columns.forEach((column, index) => {
      if (column && line[index]) contact[column] = line[index]!
    })
    return contact
  })
}
