// Style sheets are the bundler's to read.
declare module '*.css';
