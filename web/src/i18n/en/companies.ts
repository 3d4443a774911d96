import type { Texts } from '..'
import type zh from '../zh/companies'

const texts: Texts<typeof zh> = {
  title: 'Companies',
  hint: 'Companies are the tenants: they own users, tasks and routes. While tasks of several companies wait, the queue serves each by its weight.',
  add: 'Add a company',
  no: 'Company number',
  name: 'Name',
  weight: 'Weight',
  defaultRegion: 'Region of numbers',
  countries: 'Allowed countries',
  allCountries: 'All countries',
  someCountries: 'Only these countries',
  noCountry: 'No country',
  countriesOff: 'Countries switched off',
  countriesOffHint: 'Messages to these countries are accepted and held until they are switched on.',
  noCountryOff: 'None',
  withoutCountries: '{allowed} (off: {off})',
  status: 'Status',
  statusHint: 'Off holds waiting messages at once, without failing them. On lets them go on.',
  sharedSenders: 'Shared senders',
  sharedSendersHint: 'Without them, messages that no route serves are held, and no other sender sends them.',
  usesSharedSenders: 'Shared senders send what no route serves',
  editOne: 'Edit the company “{name}”',
  deleteOne: 'Delete the company “{name}”',
  empty: {
    title: 'No companies yet',
    text: 'Add a company first, then its users and routes.',
  },
  delete: {
    title: 'Delete the company “{name}”?',
    text: 'Only a company that no user, task, route or template refers to can be deleted. This cannot be undone.',
    button: 'Delete the company',
  },
  form: {
    edit: 'Edit the company “{name}”',
    noHint: 'Letters, digits, dots, dashes and underscores. It cannot change later.',
    weightHint: 'The share relative to other companies: a company with weight 2 is served twice as often as one with weight 1.',
    defaultRegionHint: 'Two letters, such as CN or ID: the region of phone numbers without + and a country code. Empty: such numbers are refused, unless they are mobile numbers of mainland China.',
    countriesHint: 'Restricts phone numbers only. What waits for a country that is not allowed any more is held.',
  },
}
export default texts
