import type { Texts } from '..'
import type zh from '../zh/contacts'

const texts: Texts<typeof zh> = {
  title: 'Contacts',
  hint: 'Notifications are sent to user ids: each channel uses the address that the contact has on it. Who has no address on a channel gets nothing there.',
  add: 'Add a contact',
  company: 'Company',
  user_id: 'User id',
  exactUser: 'User id, in full',
  phone: 'Phone (SMS)',
  email: 'E-mail',
  dingtalk_name: 'DingTalk user',
  wechat_openid: 'WeChat openid',
  pick: 'Choose',
  pickOne: 'Choose the contact {name}',
  picked: 'none chosen | {n} contact chosen | {n} contacts chosen',
  unpick: 'Choose none',
  deletePicked: 'Delete the chosen',
  editOne: 'Edit the contact {name}',
  deleteOne: 'Delete the contact {name}',
  saved: 'nothing saved | {n} contact saved | {n} contacts saved',
  empty: {
    title: 'No contacts yet',
    text: 'Add the people who get notifications, or paste many from a spreadsheet. The user id is that of your business system.',
  },
  delete: {
    title: 'Delete the contact {name}?',
    many: 'Delete the chosen contacts?',
    text: 'Later notifications to them fail, because no address is known. Notifications and tasks that exist stay.',
    things: 'contacts',
    button: 'Delete',
    done: 'nothing deleted | {n} contact deleted | {n} contacts deleted',
  },
  form: {
    edit: 'Edit the contact {name}',
    company: 'Company: {company}',
    userHint: "The id in your business system, by which notifications name people. Letters, digits, dot, hyphen, underscore and {'@'}; it cannot be changed later.",
    phoneHint: 'A Chinese mobile number needs no country code; others start with +.',
    emailHint: 'For the channel email.',
    dingtalkHint: 'The user on the channel dingtalk.',
    wechatHint: 'For the channel wechat (subscribe messages).',
    clear: 'Empty a field and save to remove that address.',
    exists: 'This user id has a contact already. Edit that one instead.',
    existsAbove: 'The contact exists already.',
  },
  paste: {
    title: 'Add or change several',
    label: 'One contact on each line',
    hint: 'Paste rows from a spreadsheet, or CSV.',
    rules:
      'The first line may name the columns (user_id, phone, email, dingtalk_name, wechat_openid); without names this is their order. Existing contacts are changed, and an empty cell leaves an address as it is. All are saved, or none if one is wrong.',
    row: 'Row',
    preview: 'Preview: nothing | Preview: {n} contact | Preview: {n} contacts',
    more: 'all shown | {n} more row | {n} more rows',
    save: 'Save | Save {n} contact | Save {n} contacts',
  },
}
export default texts
