// Routes as a matrix of company, message type and country, and the shares that their weights give.
import { messageTypes, type Schema } from '@/api/types'
import { hasFunds, usesOf, type Sender } from '@/pages/senders/readiness'

export type Route = Schema<'Route'>

/** A route with its part of the messages. */
export interface Entry {
  route: Route
  /** The share while every available sender is ready, from 0 to 1. 0: it is off, a backup, or not available. */
  share: number
  role: 'sends' | 'backup' | 'off' | 'unavailable'
}

/** One row of the matrix: the routes of a company to a country, by message type. Null is every country without routes of its own. */
export interface Row {
  company_no: string
  country_no: string | null
  cells: Record<Schema<'MessageType'>, Entry[]>
}

/** Whether the sender could take messages now. A sender that the page does not know counts as available. */
export const isAvailable = (sender: Sender | undefined): boolean =>
  !sender || (sender.status === 'on' && !sender.pause && hasFunds(sender) && usesOf(sender).every((use) => use.used < use.limit))

/** The routes of one pool with their shares: the available ones with the greatest sort share the messages by weight. */
export function sharesOf(routes: Route[], senders: Map<string, Sender>): Entry[] {
  const usable = routes.filter((route) => route.status === 'on' && isAvailable(senders.get(route.sender_no)))
  const top = Math.max(...usable.map((route) => route.sort))
  const first = usable.filter((route) => route.sort === top)
  const sum = first.reduce((all, route) => all + route.weight, 0)
  return [...routes]
    .sort((a, b) => b.sort - a.sort || b.weight - a.weight || a.sender_no.localeCompare(b.sender_no))
    .map((route) => {
      if (route.status === 'off') return { route, share: 0, role: 'off' }
      if (first.includes(route)) return { route, share: route.weight / sum, role: 'sends' }
      return { route, share: 0, role: usable.includes(route) ? 'backup' : 'unavailable' }
    })
}

export function matrixOf(routes: Route[], senders: Map<string, Sender>): Row[] {
  const rows = new Map<string, Route[]>()
  for (const route of routes) {
    const key = `${route.company_no}\u0000${route.country_no ?? ''}`
    const own = rows.get(key)
    if (own) own.push(route)
    else rows.set(key, [route])
  }
  return [...rows.values()]
    .map((own) => ({
      company_no: own[0]!.company_no,
      country_no: own[0]!.country_no,
      cells: Object.fromEntries(
        messageTypes.map((type) => [
          type,
          sharesOf(
            own.filter((route) => route.message_type === type),
            senders,
          ),
        ]),
      ) as Row['cells'],
    }))
    .sort((a, b) => a.company_no.localeCompare(b.company_no) || (a.country_no ?? '').localeCompare(b.country_no ?? ''))
}

/** The routes that a message follows: those of its country, else those of any country. */
export function routesFor(routes: Route[], company: string, type: string, country: string | undefined): Route[] {
  const own = routes.filter((route) => route.company_no === company && route.message_type === type && route.status === 'on')
  const exact = own.filter((route) => country !== undefined && route.country_no === country)
  return exact.length > 0 ? exact : own.filter((route) => route.country_no === null)
}
