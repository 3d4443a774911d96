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
    countriesHint: 'Choose none to allow phone numbers of all countries.',
  },
}
export default texts
