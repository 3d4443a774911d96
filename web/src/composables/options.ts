// The companies, channels, countries and senders that fields and filters offer.
import { computed, onMounted, shallowReactive } from 'vue'
import { api, call } from '@/api/client'
import type { Page } from '@/api/types'
import { can } from '@/session'

export interface Option {
  value: string
  label: string
}

const named = (no: string, name: string): Option => ({ value: no, label: name && name !== no ? `${no} · ${name}` : no })

const first = { limit: 100 }

// Only the newest hundred are offered. A field also takes a number that is typed in.
const sources = {
  companies: {
    operation: 'listCompanies',
    load: async () => (await call(api.GET('/api/v1/admin/companies', { params: { query: first } }))).items.map((one) => named(one.company_no, one.name)),
  },
  channels: {
    operation: 'listChannels',
    load: async () => (await call(api.GET('/api/v1/admin/channels', { params: { query: first } }))).items.map((one) => named(one.channel, one.name)),
  },
  countries: {
    operation: 'listCountries',
    load: async () => (await call(api.GET('/api/v1/admin/countries', { params: { query: first } }))).items.map((one) => named(one.country_no, one.name)),
  },
  senders: {
    operation: 'listSenders',
    load: async () => (await call(api.GET('/api/v1/admin/senders', { params: { query: first } }))).items.map((one) => named(one.sender_no, one.name ?? '')),
  },
} as const

export type OptionKind = keyof typeof sources

const kept = shallowReactive<Partial<Record<OptionKind, Option[]>>>({})

/** The records of a kind as options; empty while they load, and for users who may not list them. */
export function useOptions(kind: OptionKind) {
  const load = async () => {
    if (!can(sources[kind].operation)) return
    try {
      kept[kind] = await sources[kind].load()
    } catch {
      // The field still takes what is typed in.
    }
  }
  onMounted(load)
  return computed(() => kept[kind] ?? [])
}

/** Every page of a list, up to `most` rows. */
export async function loadAll<T>(load: (query: { limit: number; cursor?: string }) => Promise<Page<T>>, most = 2000): Promise<T[]> {
  const all: T[] = []
  let cursor: string | null | undefined
  do {
    const page: Page<T> = await load({ limit: 100, ...(cursor ? { cursor } : {}) })
    all.push(...page.items)
    cursor = page.next_cursor
  } while (cursor && all.length < most)
  return all
}
