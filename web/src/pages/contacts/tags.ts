// Tags in the address, and what is done with them.
import { api, call } from '@/api/client'

// No tag has a slash.
export const splitTags = (text: string | undefined): string[] => (text ? text.split('/').filter(Boolean) : [])
export const joinTags = (tags: string[]): string => tags.join('/')

export const ofCompany = (company: string | undefined) => (company ? { company_no: company } : {})

/** Puts contacts into a tag, which is made if it does not exist, in portions that the API takes. */
export async function addToTag(tag: string, users: string[], company?: string): Promise<{ added: number; unknown: string[] }> {
  await call(api.PUT('/api/v1/tags/{tag}', { params: { path: { tag }, query: ofCompany(company) } }))
  const sum = { added: 0, unknown: [] as string[] }
  for (let from = 0; from < users.length; from += 1000) {
    const one = await call(api.POST('/api/v1/tags/{tag}/contacts', { params: { path: { tag } }, body: { ...ofCompany(company), add: users.slice(from, from + 1000) } }))
    sum.added += one.added
    sum.unknown.push(...one.unknown)
  }
  return sum
}

export const removeFromTag = (tag: string, users: string[], company?: string) =>
  call(api.POST('/api/v1/tags/{tag}/contacts', { params: { path: { tag } }, body: { ...ofCompany(company), remove: users } }))
