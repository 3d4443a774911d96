import type { Texts } from '..'
import type zh from '../zh/notificationTemplates'

const texts: Texts<typeof zh> = {
  title: 'Notification templates',
  hint: "Each business type has one template on each channel. The data of a notification fills in its placeholders, such as ${'{'}taskName{'}'}.",
  add: 'Add a notification template',
  addChannel: 'Add for another channel',
  addTo: 'Add for another channel: {type}',
  name: '{type} · {channel}',
  text: 'Title and text',
  external: "Provider's template",
  editOne: 'Edit the template “{name}”',
  enableOne: 'Enable the template “{name}”',
  disableOne: 'Disable the template “{name}”',
  deleteOne: 'Delete the template “{name}”',
  empty: { title: 'No notification templates yet', text: 'A business type without a template cannot notify on that channel. Add the first one.' },
  delete: {
    title: 'Delete the template “{name}”?',
    text: 'Notifications of this business type then fail on this channel, also those that still wait. This cannot be undone.',
    button: 'Delete the template',
  },
  examples: {
    taskName: 'Emergency imaging',
    creatorName: 'Zhang San',
    createTime: '2026-11-24 10:00',
    nextNodeName: 'review',
    nodeName: 'review',
    remainMin: '30',
    overtime: '15',
    maxDuration: '60',
    orbitNo: '1024',
  },
  form: {
    title: 'Title',
    titleHint: 'The subject of an e-mail, the title on DingTalk and OA. It may have placeholders.',
    content: 'Text',
    contentHint: "A placeholder is written ${'{'}name{'}'}. The server itself gives orbitNo and remainMin before an orbit, overtime and maxDuration for a node that takes too long.",
    externalHint: 'The number that the provider gave the template, for DingTalk and WeChat.',
    signHint: 'For notifications that have none of their own.',
    enabledHint: 'Without it, the business type cannot notify on this channel.',
    chooseChannel: 'Choose a channel.',
    exists: 'This business type has a template on this channel already. Edit that one instead.',
  },
}
export default texts
