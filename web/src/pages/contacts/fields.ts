import type { Schema } from '@/api/types'

export type Contact = Schema<'Contact'>

/** The addresses of a contact, and the channel that uses each. */
export const addressFields = ['phone', 'email', 'dingtalk_name', 'wechat_openid'] as const

export type AddressField = (typeof addressFields)[number]

const words: Record<string, 'user_id' | 'name' | AddressField> = {
  user_id: 'user_id',
  user: 'user_id',
  用户: 'user_id',
  用户编号: 'user_id',
  name: 'name',
  姓名: 'name',
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

// As the server finds the columns of an imported list (internal/audience/contact/field.go).
const importNames: Record<'user_id' | 'name' | AddressField, string[]> = {
  user_id: ['user_id', 'userid', '用户id', '用户编号', '用户标识', '工号', '编号', '账号'],
  name: ['name', '姓名', '名字', '名称', '客户姓名'],
  phone: ['phone', 'phone_number', 'mobile', '手机', '手机号', '手机号码', '电话', '电话号码', '联系电话', '移动电话'],
  email: ['email', 'e-mail', 'mail', '邮箱', '电子邮箱', '邮件', '电子邮件', '邮箱地址'],
  dingtalk_name: ['dingtalk_name', 'dingtalk', '钉钉', '钉钉账号', '钉钉用户名', '钉钉用户id'],
  wechat_openid: ['wechat_openid', 'openid', '微信openid', '微信'],
}

/** The field that a column of an imported list fills; undefined: it is an attribute. */
export function fieldOf(column: string): keyof typeof importNames | undefined {
  const name = column.normalize('NFKC').replace(/\s/g, '').toLowerCase()
  return (Object.keys(importNames) as (keyof typeof importNames)[]).find((field) => importNames[field].includes(name))
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
