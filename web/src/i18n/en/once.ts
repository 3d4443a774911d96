import type { Texts } from '..'
import type zh from '../zh/once'

const texts: Texts<typeof zh> = {
  title: 'Subscribe messages',
  hint: 'WeChat messages for which a user consented once: one for each business object, template type and receiver. If the outcome is unknown, it is not sent again. The page updates by itself.',
  showFailures: 'Failures only',
  statistics: 'By template type',
  templateType: 'Template type',
  total: 'Total',
  success: 'Success',
  failed: 'Failed',
  sending: 'Sending',
  rate: 'Success rate',
  business: 'Business',
  businessType: 'Business type',
  businessId: 'Business id',
  template: 'Template',
  receiver: 'Receiver',
  state: 'State',
  states: { 0: 'sending', 1: 'sent', 2: 'failed' },
  error: 'Why it failed or waits',
  waits: 'Waits: {why}',
  held: 'Held: {by}',
  sends: 'Sends',
  time: 'Time',
  task: 'Task',
  empty: {
    title: 'No subscribe messages yet',
    text: 'The business system submits them to POST /api/v1/subscribe-messages. It submits a failed one again with `retry`; this page does not, because a consent of a user is good for one message.',
  },
}
export default texts
