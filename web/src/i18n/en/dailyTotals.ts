import type { Texts } from '..'
import type zh from '../zh/dailyTotals'

const texts: Texts<typeof zh> = {
  title: 'Daily totals',
  hint: 'What each sender did on each day, to compare with the bills of providers. Test messages are left out. Days are those of the time zone of the statistics.',
  day: 'Day',
  from: 'First day',
  to: 'Last day',
  attempted: 'Attempted',
  accepted: 'Accepted',
  delivered: 'Delivered',
  segments: 'Segments',
  cost: 'Cost ({currency})',
  empty: {
    title: 'No totals yet',
    text: 'They appear here when senders have reported results.',
  },
}
export default texts
