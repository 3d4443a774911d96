import type { Texts } from '..'
import type zh from '../zh/channels'

const texts: Texts<typeof zh> = {
  title: 'Channels',
  hint: 'A channel is how a message reaches people: SMS, e-mail, DingTalk, … Each sender belongs to one channel, and routes choose senders by channel.',
  add: 'Add a channel',
  channel: 'Channel',
  name: 'Name',
  signature: 'Signature',
  required: 'required',
  notRequired: 'not required',
  countries: 'Allowed countries',
  retries: 'Retries after failures',
  standardRetries: 'as the server is configured',
  noRetries: 'none',
  retriesAfter: 'after {list}',
  atOnce: 'at once',
  comma: ', ',
  editOne: 'Edit the channel “{name}”',
  deleteOne: 'Delete the channel “{name}”',
  known: {
    sms: 'SMS: phones that poll, or SMS providers',
    email: 'E-mail by SMTP',
    dingtalk: 'DingTalk work notifications',
    wechat: 'WeChat subscribe messages',
    oa: 'OA to-dos and messages',
  },
  empty: { title: 'No channels yet', text: 'Add the channel sms first, then its senders and routes.' },
  delete: {
    title: 'Delete the channel “{name}”?',
    text: 'Only a channel that no sender, route, task or notification template refers to can be deleted. It cannot be restored.',
    button: 'Delete the channel',
  },
  form: {
    edit: 'Edit the channel “{name}”',
    channelHint: 'Letters, digits, dot, hyphen and underscore; it cannot be changed later. Submissions name the channel by it.',
    signature: 'Reject messages without a signature',
    signatureHint: 'The signature is the name in 【】 before the text. Many SMS providers require it.',
    countriesHint: 'Restricts phone numbers only. What waits for a country that is not allowed any more is held.',
    retriesHint: 'For driven senders (SMS providers, e-mail, …): minutes to wait before each further attempt. After the last one the task has failed.',
    standard: 'As the server is configured',
    own: 'Own',
    minutes: 'Minutes before each retry',
    wrongMinutes: 'Enter minutes with commas between them, such as 1, 5, 30. Leave it empty for no retries.',
  },
}
export default texts
